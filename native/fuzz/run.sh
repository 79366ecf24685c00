#!/bin/sh
# Fuzzes each target in turn, guided by coverage, on stable Rust: native/fuzz/run.sh [SECONDS EACH [TARGET...]]
# Needs a C++ compiler for libFuzzer. What it finds lies in target/fuzz/found, what it has learned in target/fuzz/corpus.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-60}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- $(ls fuzz/seeds)

# What cargo-fuzz sets, but for the sanitizers, which only a nightly compiler has: counters at each edge, comparisons traced.
RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions=on -Coverflow-checks=on"
export RUSTFLAGS
host=$(rustc -vV | sed -n 's/^host: //p')
# With a target named, build scripts and macros go without the flags.
CARGO_PROFILE_RELEASE_LTO=off cargo build --quiet --release --locked -p trimtab-fuzz --features coverage \
    --target "$host" --target-dir target/fuzz

mkdir -p target/fuzz/found
for name in "$@"; do
    mkdir -p "target/fuzz/corpus/$name"
    echo "== $name"
    TRIMTAB_FUZZ=$name "target/fuzz/$host/release/trimtab-fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 \
        -max_len=4096 -artifact_prefix="target/fuzz/found/$name-" -print_final_stats=1 -verbosity=0 \
        "target/fuzz/corpus/$name" "fuzz/seeds/$name"
done
