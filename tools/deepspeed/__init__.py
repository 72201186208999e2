"""What DeepSpeed and the package hjson say of configs, compared with fp8tune."""
