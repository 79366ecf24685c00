//! libFuzzer's program: TRIMTAB_FUZZ names the target.
#![no_main]

use std::sync::OnceLock;

use trimtab_fuzz::TARGETS;

static RUN: OnceLock<fn(&[u8])> = OnceLock::new();

fn chosen() -> fn(&[u8]) {
    let name = std::env::var("TRIMTAB_FUZZ").unwrap_or_default();
    let Some(target) = TARGETS.iter().find(|target| target.name == name) else {
        eprintln!("TRIMTAB_FUZZ={name:?} is none of:");
        TARGETS
            .iter()
            .for_each(|target| eprintln!("{}", target.name));
        std::process::exit(2);
    };
    target.run
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| { RUN.get_or_init(chosen)(bytes) });
