"""What the tutorials train, on what data, and what decides their bits."""
