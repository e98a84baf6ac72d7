"""Training without RPC: cases, models, data, random draws, gradients."""
