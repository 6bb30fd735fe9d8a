"""Leaves words in a GPU's memory, or looks for them in memory that nobody has written yet.

usage: residue.py leave exit|kill|free     fills nearly all that is free, prints "left", and ends so; `free`: gives it back, and
                                           ends when a line comes
       residue.py look                     prints how many of the words it has found, of how many
"""
import os
import signal
import sys

import torch

WORD = 0x7E55E7A50DA5A5A5
PIECE = 128 << 20


def take_all():
    # Code is loaded when it is first used, which takes memory, too.
    one = torch.empty(PIECE // 8, dtype=torch.int64, device="cuda")
    one.fill_(0)
    int((one == WORD).sum())
    del one
    torch.cuda.empty_cache()
    pieces = []
    try:
        while True:
            pieces.append(torch.empty(PIECE // 8, dtype=torch.int64, device="cuda"))
    except torch.cuda.OutOfMemoryError:
        return pieces


def main():
    pieces = take_all()
    if sys.argv[1] == "look":
        del pieces[-2:]  # the comparison needs some itself
        found = sum(int((piece == WORD).sum()) for piece in pieces)
        print(found, "of", len(pieces) * PIECE // 8, "words")
        return
    for piece in pieces:
        piece.fill_(WORD)
    torch.cuda.synchronize()
    if sys.argv[2] == "free":
        pieces.clear()
        del piece
        torch.cuda.empty_cache()
    print("left", flush=True)
    if sys.argv[2] == "free":
        sys.stdin.readline()
    elif sys.argv[2] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
