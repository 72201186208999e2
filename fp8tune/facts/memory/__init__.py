"""Memory of rank 0, its peak, and whether the peak fits the GPU.

``held`` has the parts; ``instants`` and ``experts`` add up those that exist at the same
instant. ``peak`` takes the largest instant, ``fit`` compares it with the GPU, and
``sizing`` looks for values that fit.
"""

GIB, MIB = 2**30, 2**20
