"""What the tiled codecs share: geometry, directory, residue planes and bit fields."""
