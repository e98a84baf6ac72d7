"""The tutorials' models, data and random numbers, and the parts of a case that training needs."""
