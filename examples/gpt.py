"""Train a small character GPT on the source text of this Python's own standard library, then let it write.

The setting is nanoGPT's for the CPU: 4 layers, 4 heads, 128 wide, context of 64 characters, batches of 12.
"""

import math
import pathlib
import sysconfig
import time

from matplotlib.figure import Figure
from tqdm import trange

import rushlight as torch
import rushlight.nn.functional as F
from common import options
from rushlight import nn


class Block(nn.Module):
    """Attention to what came before, then a small network, each added to its input."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm_1(x)).split(width, dim=2)
        q, k, v = (t.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.dropout if self.training else 0.0)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm_2(x))


class GPT(nn.Module):
    def __init__(self, letters, context, layers=4, heads=4, width=128, dropout=0.0):
        super().__init__()
        self.context = context
        self.token, self.position = nn.Embedding(letters, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*[Block(width, heads, dropout) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, letters, bias=False)
        self.head.weight = self.token.weight  # the table that reads letters also writes them
        for name, p in self.named_parameters():
            if p.dim() > 1:
                adds = name.endswith(("out.weight", "mlp.2.weight"))  # these add up over the layers
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * layers) if adds else 0.02)

    def forward(self, tokens, targets=None):
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1]))
        logits = self.head(self.norm(self.blocks(x)))
        loss = None if targets is None else F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))
        return logits, loss

    @torch.no_grad()
    def write(self, tokens, count, temperature=0.8):
        for _ in range(count):
            logits, _ = self(tokens[:, -self.context:])
            chosen = torch.multinomial(F.softmax(logits[:, -1] / temperature, dim=-1), 1)
            tokens = torch.cat((tokens, chosen), dim=1)
        return tokens


def library_text(limit):
    """The standard library's modules, as one text of printable characters."""
    files = sorted(pathlib.Path(sysconfig.get_path("stdlib")).glob("*.py"))
    text = "\n".join(f.read_text(encoding="utf-8", errors="ignore") for f in files)[:limit]
    return "".join(c for c in text if c == "\n" or " " <= c <= "~")


def draw(curve, held_out_loss, file):
    axes = (figure := Figure(figsize=(6, 4))).subplots()
    axes.plot(range(1, len(curve) + 1), curve, label="training, smoothed")
    axes.plot(len(curve), held_out_loss, "o", label="held out")
    axes.set(xlabel="step", ylabel="nats per character", title="Training")
    axes.legend()
    figure.savefig(file, bbox_inches="tight")


def main():
    args = options(__doc__, "gpt", steps=500, batch_size=12, context=64, lr=1e-3, sample=300)
    torch.manual_seed(args.seed)
    text = library_text(2_000_000)
    letters = sorted(set(text))
    number = {c: i for i, c in enumerate(letters)}
    data = torch.tensor([number[c] for c in text])
    train, held_out = data[: int(0.9 * len(data))], data[int(0.9 * len(data)):]

    def batch(source):
        starts = torch.randint(len(source) - args.context - 1, (args.batch_size, 1))
        window = source[starts + torch.arange(args.context + 1)]
        return window[:, :-1], window[:, 1:]

    model = GPT(len(letters), args.context)
    count = sum(p.numel() for p in model.parameters())
    print(f"{len(text):,} characters, {len(letters)} letters, {count:,} parameters")
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.99), weight_decay=0.1)

    @torch.compile(disable=args.no_compile)
    def step(tokens, targets):
        _, loss = model(tokens, targets)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    start, smooth, curve = time.perf_counter(), None, []
    with trange(args.steps, unit="step") as bar:
        for _ in bar:
            loss = step(*batch(train))
            smooth = loss if smooth is None else 0.95 * smooth + 0.05 * loss
            curve.append(smooth)
            bar.set_postfix(loss=f"{smooth:.3f}")
    model.eval()
    with torch.no_grad():
        losses = [model(*batch(held_out))[1].item() for _ in range(20)]
    held_out_loss = sum(losses) / len(losses)
    draw(curve, held_out_loss, args.out / "gpt.png")
    seconds = time.perf_counter() - start
    print(f"held-out loss {held_out_loss:.3f} after {seconds:.1f} s; the curve is in {args.out}")
    prompt = torch.tensor([[number[c] for c in "def "]])
    print("".join(letters[i] for i in model.write(prompt, args.sample)[0].tolist()))


if __name__ == "__main__":
    main()
