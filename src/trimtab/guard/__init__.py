"""What stands between a move and a plant, one file each."""
