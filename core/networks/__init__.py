"""Networks: readers of architectures, the rules of their layers, and the families that the product builds."""
