//! placeholder

/// Runs the subcommand on standard input and output.
pub fn run_stdio() -> anyhow::Result<()> {
    anyhow::bail!("not built yet")
}
