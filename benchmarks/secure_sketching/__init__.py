"""The experiments of Burkhardt et al. 2025, on the paper's axes, as its authors ran them and as mechanisms would be."""
