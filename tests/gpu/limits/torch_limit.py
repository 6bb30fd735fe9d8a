"""PyTorch at the end of the memory that it sees: what it is told, its error, and what it gives back and tries again.

Prints lines of a name and a number.
"""
import torch

PIECE = 64 << 20


def main():
    torch.ones(1, device="cuda")
    free, total = torch.cuda.mem_get_info()
    print("total", total)
    print("properties", torch.cuda.get_device_properties(0).total_memory)
    pieces = []
    try:
        while True:
            pieces.append(torch.empty(PIECE, dtype=torch.uint8, device="cuda"))
    except torch.cuda.OutOfMemoryError as error:
        print("refused", int("out of memory" in str(error)))
    print("had", len(pieces) * PIECE)
    print("free_then", torch.cuda.mem_get_info()[0])
    # What is freed stays in PyTorch's cache, in pieces that are too small for this: it gives them back, and asks again.
    pieces.clear()
    large = torch.empty(total // 5 * 4, dtype=torch.uint8, device="cuda")
    print("large", large.numel())
    del large
    torch.cuda.empty_cache()
    print("free_again", torch.cuda.mem_get_info()[0])
    print("free_before", free)
    ones = torch.ones(1024, 1024, device="cuda")
    print("product", int((ones @ ones).sum().item()))


if __name__ == "__main__":
    main()
