"""JAX at the end of the memory that it sees: what it takes beforehand, its error, and that it goes on behind it.

Prints lines of a name and a number.
"""
import jax
import jax.numpy as jnp

PIECE = 64 << 20


def main():
    device = jax.devices()[0]
    jnp.ones(1).block_until_ready()
    print("limit", device.memory_stats()["bytes_limit"])
    pieces = []
    try:
        while True:
            pieces.append(jnp.zeros(PIECE, dtype=jnp.uint8).block_until_ready())
    except Exception as error:  # of a class that JAX does not export
        print("refused", int("RESOURCE_EXHAUSTED" in str(error)))
    print("had", len(pieces) * PIECE)
    pieces.clear()
    ones = jnp.ones((1024, 1024), dtype=jnp.float32)
    print("product", int((ones @ ones).sum()))


if __name__ == "__main__":
    main()
