"""Modules that tests trace: implementations of published architectures."""

from __future__ import annotations

import torch
from torch import nn


def normalised(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs))


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, channels: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * channels
        self.conv1 = normalised(inputs, channels, 1)
        self.conv2 = normalised(channels, channels, 3, stride)
        self.conv3 = normalised(channels, outputs, 1)
        self.shortcut = normalised(inputs, outputs, 1, stride) if inputs != outputs else None
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        aside = x if self.shortcut is None else self.shortcut(x)
        y = self.relu(self.conv1(x))
        y = self.relu(self.conv2(y))
        return self.relu(self.conv3(y) + aside)


class ResNet50(nn.Module):
    """He et al. 2016, with the stride in the 3 x 3 convolutions."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = normalised(3, 64, 7, 2)
        self.relu = nn.ReLU(inplace=True)
        self.pool = nn.MaxPool2d(3, 2, 1)
        blocks: list[nn.Module] = []
        inputs = 64
        for stage, (channels, count) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
            for block in range(count):
                blocks.append(Bottleneck(inputs, channels, 2 if stage and not block else 1))
                inputs = 4 * channels
        self.blocks = nn.Sequential(*blocks)
        self.mean = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.pool(self.relu(self.conv1(x)))
        return self.fc(self.mean(self.blocks(y)).flatten(1))


class VGG16(nn.Module):
    """Simonyan and Zisserman 2015, configuration D, without dropout."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        inputs = 3
        for channels, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
            for _ in range(count):
                layers += [nn.Conv2d(inputs, channels, 3, padding=1), nn.ReLU(inplace=True)]
                inputs = channels
            layers.append(nn.MaxPool2d(2, 2))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Linear(512 * 49, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(x).flatten(1))


class RootMeanSquare(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class LlamaBlock(nn.Module):
    def __init__(self, hidden: int, heads: int, pairs: int, inner: int) -> None:
        super().__init__()
        self.heads, self.pairs, self.width = heads, pairs, hidden // heads
        self.norm1, self.norm2 = RootMeanSquare(hidden), RootMeanSquare(hidden)
        self.q_proj = nn.Linear(hidden, hidden, bias=False)
        self.k_proj = nn.Linear(hidden, pairs * self.width, bias=False)
        self.v_proj = nn.Linear(hidden, pairs * self.width, bias=False)
        self.o_proj = nn.Linear(hidden, hidden, bias=False)
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        batch, sequence, _ = x.shape

        def split(y: torch.Tensor, heads: int) -> torch.Tensor:
            return y.view(batch, sequence, heads, self.width).transpose(1, 2)

        def turned(y: torch.Tensor) -> torch.Tensor:
            low, high = y.chunk(2, -1)
            return y * cos + torch.cat((-high, low), -1) * sin

        y = self.norm1(x)
        q, k, v = (
            split(self.q_proj(y), self.heads),
            split(self.k_proj(y), self.pairs),
            split(self.v_proj(y), self.pairs),
        )
        y = nn.functional.scaled_dot_product_attention(turned(q), turned(k), v, is_causal=True, enable_gqa=True)
        x = x + self.o_proj(y.transpose(1, 2).reshape(batch, sequence, -1))
        y = self.norm2(x)
        return x + self.down_proj(nn.functional.silu(self.gate_proj(y)) * self.up_proj(y))


class Llama(nn.Module):
    """Touvron et al. 2023 (Llama 2), of any size; the defaults give the model of 70 B parameters."""

    def __init__(
        self,
        layers: int = 80,
        hidden: int = 8192,
        heads: int = 64,
        pairs: int = 8,
        inner: int = 28672,
        words: int = 32000,
    ) -> None:
        super().__init__()
        self.width = hidden // heads
        self.embed = nn.Embedding(words, hidden)
        self.blocks = nn.ModuleList(LlamaBlock(hidden, heads, pairs, inner) for _ in range(layers))
        self.norm = RootMeanSquare(hidden)
        self.head = nn.Linear(hidden, words, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        rates = 10000.0 ** (-torch.arange(0, self.width, 2, device=tokens.device) / self.width)
        angles = torch.outer(positions, rates).repeat(1, 2)
        cos, sin = angles.cos().to(self.embed.weight.dtype), angles.sin().to(self.embed.weight.dtype)
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.head(self.norm(x))
