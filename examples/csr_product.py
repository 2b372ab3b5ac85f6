"""A sparse matrix in compressed rows times a vector, as one index expression.

The row pointers are data, and the range of a reduction may follow from data: row `i` runs over `ptr[i] .. ptr[i + 1]`. What data says
cannot be known beforehand, so a definition says what holds whatever it is: the range stays within the stored elements, and a column number
counts only where there is such a column.

    python examples/csr_product.py
"""

import numpy as np
from scipy import sparse

import tensorlang as tl

rows, columns, stored = tl.dim("rows"), tl.dim("columns"), tl.dim("stored")
ptr, col = tl.placeholder((rows + 1,), "int32", name="ptr"), tl.placeholder((stored,), "int32", name="col")
val, v = tl.placeholder((stored,), name="val"), tl.placeholder((columns,), name="v")


def row(i: tl.Expr) -> tl.Expr:
    """The product of row `i` with the vector."""
    e = tl.reduce_axis((ptr[i], ptr[i + 1]), name="e", within=stored)
    return tl.sum(val[e] * tl.select((col[e] >= 0) & (col[e] < columns), v[col[e]], 0.0), axis=e)


product = tl.compute((rows,), row, name="product")
s = tl.Schedule(product)
s.parallel("product.i")
print(s)
multiply = tl.build(s)

# One kernel serves every matrix: the extents are found in its arguments.
for shape, density in (((300, 200), 0.05), ((1000, 1000), 0.01), ((5, 7), 0.0)):
    matrix = sparse.random_array(shape, density=density, format="csr", dtype="float32", rng=np.random.default_rng(0))
    vector = np.random.default_rng(1).random(shape[1], "float32")
    got = multiply(matrix.indptr.astype("int32"), matrix.indices.astype("int32"), matrix.data, vector)
    np.testing.assert_allclose(got, matrix @ vector, rtol=1e-4, atol=1e-6)
    print(f"{shape[0]} x {shape[1]} with {matrix.nnz} stored elements: as SciPy")
