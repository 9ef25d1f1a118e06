"""Components with zeros: sparse PCA, dictionaries, joint sparsity."""
