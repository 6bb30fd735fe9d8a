"""How long a step of each of three models takes: a ResNet-50 that trains, a transformer that trains, one that decodes with a graph.

usage: steps.py [SECONDS]   for each (4)

A line each: its name, and the median of a step in ms. A step ends when the GPU has done it.
"""
import statistics
import sys
import time

import torch
import torchvision
from torch import nn


def resnet():
    model = torchvision.models.resnet50().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images, labels = torch.randn(64, 3, 224, 224, device="cuda"), torch.randint(0, 1000, (64,), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
    return step


def transformer(layers, width):
    layer = nn.TransformerEncoderLayer(width, 12, 4 * width, dropout=0, batch_first=True)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).cuda()


def gpt():
    model = transformer(12, 768)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randn(8, 1024, 768, device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = (model(tokens) - tokens).square().mean()
        loss.backward()
        optimizer.step()
    return step


def decode():
    model = transformer(12, 768).eval().bfloat16()
    token = torch.randn(8, 128, 768, device="cuda", dtype=torch.bfloat16)
    with torch.no_grad():
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            model(token)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            model(token)
    return lambda: [graph.replay() for _ in range(16)]


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 4
    torch.manual_seed(0)
    for make in resnet, gpt, decode:
        step, times = make(), []
        begin = time.perf_counter()
        while (now := time.perf_counter()) - begin < seconds or len(times) < 20:
            step()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - now)
        print(make.__name__, f"{1000 * statistics.median(times[len(times) // 4:]):.4f}", flush=True)


main()
