#!/bin/sh
# Sets up everything that `make demo` and `make test` need, and says what it could not. Safe to run again.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }

missing_packages() { # names from packages.txt that dpkg does not know as installed
    wanted=$(sed -e 's/#.*//' packages.txt | awk -v rust="$1" 'NF && ($2 != "rust" || rust == "yes") {print $1}')
    for name in $wanted; do
        dpkg-query -W -f='${Status}' "$name" 2>/dev/null | grep -q '^install ok installed' || printf '%s ' "$name"
    done
}

cargo_is_new_enough() { # 1.85 or newer, with clippy and rustfmt for `make test`
    command -v cargo >/dev/null 2>&1 || return 1
    version=$(cargo --version | awk '{print $2}')
    [ "$(printf '%s\n1.85.0\n' "$version" | sort -V | head -n 1)" = 1.85.0 ]
}

need_rust=yes
if cargo_is_new_enough; then need_rust=no; fi

if command -v dpkg-query >/dev/null 2>&1; then
    missing=$(missing_packages "$need_rust")
    if [ -n "$missing" ] && [ "$(id -u)" = 0 ]; then
        say "installing Debian packages: $missing"
        export DEBIAN_FRONTEND=noninteractive
        apt-get update -qq
        # shellcheck disable=SC2086  # a list of names
        apt-get install -y -qq --no-install-recommends $missing >/dev/null
    elif [ -n "$missing" ]; then
        say "not root, so these Debian packages stay missing: $missing"
        say "  (as root: apt-get install --no-install-recommends $missing)"
    fi
else
    say "this is not Debian: the packages of packages.txt have to be there already"
fi

if ! cargo_is_new_enough; then
    say "no cargo of at least 1.85: install it (Debian: cargo-web rustc-web) and run this again" >&2
    exit 1
fi

python=$(command -v python3.11 || command -v python3)
if [ ! -x .venv/bin/python ]; then
    say "making the virtual environment .venv"
    "$python" -m venv .venv
fi
say "installing the pinned Python packages"
.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
say "building trimtab and its native program (the first time takes a minute or two)"
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
say "done: .venv/bin/trimtab --help"
