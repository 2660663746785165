#!/usr/bin/env python3
"""A transformer block and FlexAttention, forward and backward, through `torch.compile`. Input of `compare.py`."""

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = torch.softmax(q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5, -1) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x))))


def main():
    for dtype in (torch.bfloat16, torch.float32):
        torch.manual_seed(2)
        torch._dynamo.reset()
        block = torch.compile(Block(512, 8).cuda().to(dtype))
        x = torch.randn(4, 512, 512, device="cuda", dtype=dtype, requires_grad=True)
        block(x).square().mean().backward()
    attention = torch.compile(flex_attention)
    for depth in (64, 128):
        q, k, v = (torch.randn(2, 8, 2048, depth, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 2048, 2048, device="cuda")
        attention(q, k, v, block_mask=mask).sum().backward()
        attention(q, k, v, score_mod=lambda score, b, h, i, j: score + (i - j) * 0.01).sum().backward()


if __name__ == "__main__":
    main()
