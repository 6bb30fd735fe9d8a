"""A language model of random weights from transformers, generating and training in bf16 and fp16."""
import os

import torch

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"


def main():
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    config = LlamaConfig(vocab_size=1000, hidden_size=512, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=8,
                         num_key_value_heads=4, max_position_embeddings=512)
    model = LlamaForCausalLM(config).cuda().to(torch.bfloat16).eval()
    tokens = torch.arange(32, device="cuda").reshape(1, 32)
    with torch.no_grad():
        print(model.generate(tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=40, do_sample=False,
                             pad_token_id=0).tolist())
    model.float().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler()
    for _ in range(5):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(tokens, labels=tokens).loss
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        print(f"{loss.item():.6e}")


if __name__ == "__main__":
    main()
