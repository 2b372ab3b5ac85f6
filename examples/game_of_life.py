"""Conway's game of life: a step with stages of its own, repeated in one call.

`tl.scan` repeats a step whose state is a tensor; the step is written with `compute` like anything else. The board is a torus, so a step
first pads it with what is at the other side.

    python examples/game_of_life.py
"""

import numpy as np
from scipy import ndimage

import tensorlang as tl

SIZE, STEPS = 24, 40

board = tl.placeholder((SIZE, SIZE), "uint8", name="board")


def step(_t: tl.Expr, state: tl.Tensor) -> tl.Tensor:
    """The next generation."""
    around = tl.pad(state, ((1, 1), (1, 1)), mode="wrap", name="around")
    dy, dx = tl.reduce_axis(3, name="dy"), tl.reduce_axis(3, name="dx")
    alive = tl.compute((SIZE, SIZE), lambda y, x: tl.sum(around[y + dy, x + dx], axis=(dy, dx)), name="alive")
    result: tl.Tensor = tl.compute(
        (SIZE, SIZE),
        lambda y, x: tl.cast((alive[y, x] == 3) | ((alive[y, x] == 4) & (state[y, x] == 1)), "uint8"),
        name="next",
    )
    return result


generations = tl.scan(step, board, STEPS, name="generations")
run = tl.build(generations)

glider = np.zeros((SIZE, SIZE), "uint8")
glider[1:4, 1:4] = [[0, 1, 0], [0, 0, 1], [1, 1, 1]]
films = run(glider)

state = glider
for film in films:
    neighbours = ndimage.convolve(state, np.ones((3, 3), "uint8"), mode="wrap")
    state = ((neighbours == 3) | ((neighbours == 4) & (state == 1))).astype("uint8")
    np.testing.assert_array_equal(film, state)
print(f"{STEPS} generations, each as SciPy's convolution gives it")

# A glider moves one place down and right in four generations.
np.testing.assert_array_equal(films[3], np.roll(glider, (1, 1), (0, 1)))
for t in (3, STEPS - 1):
    print(f"\ngeneration {t + 1}")
    print("\n".join("".join(".#"[cell] for cell in line) for line in films[t][: SIZE // 2]))
