"""How far rounding may take a correct run of a natural case: the bound, and the twins that it is measured with."""
