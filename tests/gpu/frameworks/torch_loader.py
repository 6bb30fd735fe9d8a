"""A training with a DataLoader of several processes and pinned batches, whose workers were forked after CUDA was used."""
import torch
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return torch.randn(3, 32, 32, generator=generator), index % 10


def main():
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, stride=2), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.Flatten(),
                                torch.nn.Linear(16 * 15 * 15, 10)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(Numbers(), batch_size=64, num_workers=4, pin_memory=True, persistent_workers=True)
    for epoch in range(3):
        for images, labels in loader:
            loss = torch.nn.functional.cross_entropy(model(images.cuda(non_blocking=True)), labels.cuda(non_blocking=True))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        print(epoch, f"{loss.item():.9e}")
    print(f"{sum(p.double().sum() for p in model.parameters()).item():.12e}")


if __name__ == "__main__":
    import os
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    main()
