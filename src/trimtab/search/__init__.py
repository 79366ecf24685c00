"""Search over many knobs: the space, the evidence, the local model; pure parts of the controllers that search."""
