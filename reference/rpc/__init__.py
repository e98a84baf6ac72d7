"""What several tutorials need around remote calls: each mechanism in a file of its own."""
