"""Search over many knobs: the space, the evidence, and models of it; pure functions, used by controllers."""
