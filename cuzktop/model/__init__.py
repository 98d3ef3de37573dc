"""What the events add up to: one owner's mutable, bounded state."""
