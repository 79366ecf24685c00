#!/bin/sh
# Sets up everything that `make demo` needs, with --lab what the labs need too, with --test what `make test` needs, and
# says what it could not.
# Safe to run again.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }

fail() {
    say "$*" >&2
    exit 1
}

missing_packages() { # names from packages.txt that dpkg does not know as installed
    wanted=$(sed -e 's/#.*//' packages.txt |
        awk -v rust="$1" -v test="$2" -v lab="$3" '
            NF && $2 !~ /^bench/ && ($2 != "rust" || rust == "yes") && ($2 != "test" || test == "yes") &&
            ($2 != "lab" || lab == "yes") {print $1}')
    for name in $wanted; do
        dpkg-query -W -f='${Status}' "$name" 2>/dev/null | grep -q ' ok installed$' || printf '%s ' "$name"
    done
}

cargo_is_new_enough() { # 1.85 or newer
    command -v cargo >/dev/null 2>&1 || return 1
    version=$(cargo --version | awk '{print $2}')
    [ "$(printf '%s\n1.85.0\n' "$version" | sort -V | head -n 1)" = 1.85.0 ]
}

apt_get() { # waits while another apt or dpkg holds one of its locks (a fresh machine runs unattended upgrades)
    waited_s=0
    until LC_ALL=C apt-get -qq "$@" >/dev/null 2>"$apt_said"; do
        if ! grep -q -e 'Could not get lock' -e 'Unable to lock' -e 'locked by another process' "$apt_said" ||
            [ "$waited_s" -ge 600 ]; then
            cat "$apt_said" >&2
            return 1
        fi
        if [ "$waited_s" = 0 ]; then
            say "another apt or dpkg is at work: waiting for it, 10 minutes at most ($(grep -m 1 -i lock "$apt_said"))"
        fi
        sleep 3
        waited_s=$((waited_s + 3))
    done
    grep '^[WE]:' "$apt_said" >&2 || true
}

unit_of() { # the service of a package, where it has one
    case $1 in
    nginx-light) echo nginx ;;
    mariadb-server) echo mariadb ;;
    php8.2-fpm | haproxy | squid | tomcat10) echo "$1" ;;
    esac
}

install_packages() { # no server that comes in a package is started, now or at the next boot; those there before stay as they are
    apt_said=$(mktemp)
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ] || grep -qF "$ours" "$policy"; then
        printf '#!/bin/sh\n# %s\nexit 101\n' "$ours" >"$policy"
        chmod 755 "$policy"
        made=$policy
    fi
    units=
    if command -v systemctl >/dev/null 2>&1; then
        for name in "$@"; do
            unit=$(unit_of "$name")
            [ -z "$unit" ] || systemctl cat "$unit.service" >/dev/null 2>&1 || units="$units $unit"
        done
    fi
    if [ -d "$modules" ]; then
        enabled=$(mktemp -d)
        cp -a "$modules/." "$enabled"
    fi
    export DEBIAN_FRONTEND=noninteractive
    # What is there is not removed for it, such as MySQL for MariaDB.
    came=yes
    apt_get update && apt_get install -y --no-remove --no-install-recommends "$@" || came=no
    modules_as_before
    [ "$came" = yes ] || return 1
    for unit in $units; do
        systemctl --quiet disable "$unit" || true
    done
}

modules_as_before() { # a machine's own Apache with threads is switched to prefork by the package of PHP's module
    [ -n "$enabled" ] || return 0
    for link in "$modules"/* "$enabled"/*; do
        name=${link##*/}
        if [ -L "$modules/$name" ] && [ ! -L "$enabled/$name" ]; then
            rm -f "$modules/$name"
            say "$name is not enabled in this machine's Apache, though its package does it"
        elif [ -L "$enabled/$name" ] && [ ! -L "$modules/$name" ]; then
            cp -P "$enabled/$name" "$modules/$name"
            say "$name stays enabled in this machine's Apache, though a package took it out"
        fi
    done
    rm -rf "$enabled"
    enabled=
}

build_native() { # beside what follows; as the installation of trimtab below has it built, which then finds it made
    say "building the native parts beside it (the first time takes a minute or two)"
    cargo build --quiet --release --manifest-path native/Cargo.toml -p trimtab-native -p trimtab-shim &
    building=$!
}

stop_building() {
    [ -z "$building" ] || kill "$building" 2>/dev/null || true
}

ours="tools/setup.sh of trimtab, while it installs packages"
modules=/etc/apache2/mods-enabled
building=
apt_said=
made=
enabled=
trap 'stop_building; modules_as_before; rm -f "$apt_said" "$made"' EXIT
trap 'exit 130' HUP INT TERM

for_tests=no
for_labs=no
case ${1:-} in
--test) for_tests=yes for_labs=yes ;;
--lab) for_labs=yes ;;
esac
need_rust=yes
if cargo_is_new_enough; then need_rust=no; fi

if command -v dpkg-query >/dev/null 2>&1; then
    missing=$(missing_packages "$need_rust" "$for_tests" "$for_labs")
    if [ -n "$missing" ] && [ "$(id -u)" = 0 ]; then
        say "installing Debian packages: $missing"
        case "$need_rust $missing" in
        yes* | *build-essential* | *ca-certificates*) ;; # which it needs
        *) build_native ;;
        esac
        # shellcheck disable=SC2086  # a list of names
        install_packages $missing || say "apt-get could not install them" >&2
        missing=$(missing_packages "$need_rust" "$for_tests" "$for_labs")
        [ -z "$missing" ] || fail "these Debian packages are needed and still missing: $missing- install them and run this again"
    elif [ -n "$missing" ]; then
        say "not root, so these Debian packages stay missing: $missing"
        say "  (as root: apt-get install --no-install-recommends $missing)"
        [ "$for_labs" = no ] || fail "the labs and the tests need them all; 'make demo' needs a compiler, cargo and python3-venv, and without Apache simulates one"
    fi
else
    say "this is not Debian: the packages of packages.txt have to be there already"
fi

cargo_is_new_enough || fail "no cargo of at least 1.85: install it (Debian: cargo-web rustc-web) and run this again"
command -v cc >/dev/null 2>&1 || fail "no C compiler to link with: install it (Debian: build-essential) and run this again"
for part in clippy fmt; do
    cargo "$part" --version >/dev/null 2>&1 || say "no cargo $part: 'make demo' works, 'make test' needs it"
done

python=$(command -v python3.11 || command -v python3) || fail "no python3: install it and run this again"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "$python is older than 3.11"
if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    say "making the virtual environment .venv"
    "$python" -m venv --clear .venv || fail "no virtual environment: install its module (Debian: python3-venv) and run this again"
fi
say "installing the pinned Python packages"
[ -n "$building" ] || build_native
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements.txt ||
    fail "the pinned Python packages could not be installed"
# As pip would, but on all CPUs, and without the packages' own tests, a third of it, nor what nothing of ours imports, a
# fifth of the rest; what cannot be compiled is nobody's.
.venv/bin/python -m compileall -qq -j 0 -x '/(tests|alembic|mypy|mypyc|sqlalchemy)/' .venv/lib || true
wait "$building" || fail "the native parts could not be built"
building=
say "installing trimtab"
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
say "done: .venv/bin/trimtab --help"
