"""CuPy at the end of the memory that it sees: what it is told, its error, and what its pool gives back and tries again.

Prints lines of a name and a number.
"""
import cupy

PIECE = 64 << 20


def main():
    cupy.ones(1)
    total = cupy.cuda.runtime.memGetInfo()[1]
    print("total", total)
    pieces = []
    try:
        while True:
            pieces.append(cupy.empty(PIECE, dtype=cupy.uint8))
    except cupy.cuda.memory.OutOfMemoryError as error:
        print("refused", int("Out of memory" in str(error)))
    print("had", len(pieces) * PIECE)
    pieces.clear()
    large = cupy.empty(total // 5 * 4, dtype=cupy.uint8)  # the pool's pieces are too small for it
    print("large", large.size)
    del large
    cupy.get_default_memory_pool().free_all_blocks()
    print("free_again", cupy.cuda.runtime.memGetInfo()[0])
    ones = cupy.ones((1024, 1024), dtype=cupy.float32)
    print("product", int((ones @ ones).sum()))


if __name__ == "__main__":
    main()
