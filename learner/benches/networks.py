"""The three depth networks in PyTorch: the reference that `networks.rs` is compared with.

    python networks.py FOLDER STEPS

FOLDER holds what the Rust side wrote: `job.json` (configuration, objective, optimiser), `state.safetensors` (weights,
pictures, true depth) and `expected.safetensors` (its prediction and first loss). The script builds the same network, loads the
weights under the same names, checks that prediction and loss agree, then trains STEPS steps and prints one JSON line.

Layers are written the plain way, as the networks' papers and PyTorch's own modules have them: coefficients are
transformed patch by patch, keys and values are computed for every token, windows are masked after the bias.
"""

import json
import math
import resource
import sys
import time

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn


def norm2d(kind, width):
    if kind == "batch":
        return nn.BatchNorm2d(width)
    return nn.GroupNorm(max(width // kind["group"], 1), width)


def named(**modules):
    return nn.ModuleDict(modules)


# ---- AdaBins ----


class Block(nn.Module):
    def __init__(self, a, b, stride, norm, bias=False):
        super().__init__()
        self.conv = nn.Conv2d(a, b, 3, stride, 1, bias=bias)
        self.norm = norm2d(norm, b)

    def forward(self, x):
        return F.leaky_relu(self.norm(self.conv(x)))


class PlainEncoder(nn.Module):
    def __init__(self, widths, norm):
        super().__init__()
        for i, (a, b) in enumerate(zip([3] + widths, widths)):
            self.add_module(f"stage{i + 1}", named(down=Block(a, b, 2, norm), same=Block(b, b, 1, norm)))

    def forward(self, x):
        maps = []
        for stage in self.children():
            x = stage["down"](x)
            x = x + stage["same"](x)
            maps.append(x)
        return maps


class EfficientNet(nn.Module):
    """timm's, cut into the maps that AdaBins takes."""

    def __new__(cls):
        import timm

        model = timm.create_model("tf_efficientnet_b5", pretrained=False)
        model.bn2, model.classifier, model.global_pool = nn.Identity(), nn.Identity(), nn.Identity()

        def forward(x):
            x = model.bn1(model.conv_stem(x))
            maps = []
            for i, stage in enumerate(model.blocks):
                x = stage(x)
                if i in (0, 1, 2, 4):
                    maps.append(x)
            return maps + [model.conv_head(x)]

        model.forward = forward
        return model


class Decoder(nn.Module):
    def __init__(self, c, channels, norm):
        super().__init__()
        published = c["form"] == "published"
        self.bottleneck = nn.Conv2d(channels[-1], c["bottleneck"], 1, padding=int(published))
        a = c["bottleneck"]
        for i, (width, skip) in enumerate(zip(c["widths"], channels[-2::-1])):
            convs = [Block(a + skip if k == 0 else width, width, 1, norm, published) for k in range(c["convolutions"])]
            self.add_module(f"up{i + 1}", named(**{f"conv{k + 1}": conv for k, conv in enumerate(convs)}))
            a = width
        self.last = nn.Conv2d(a, a, 3, padding=1) if published else None

    def forward(self, maps):
        x = self.bottleneck(maps[-1])
        for i, skip in enumerate(maps[-2::-1]):
            x = F.interpolate(x, size=skip.shape[2:], mode="bilinear", align_corners=True)
            x = torch.cat([x, skip], 1)
            for conv in getattr(self, f"up{i + 1}").values():
                x = conv(x)
        return self.last(x) if self.last is not None else x


class TransformerLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        e = c["embed"]
        self.qkv, self.joined = nn.Linear(e, 3 * e), nn.Linear(e, e)
        self.up, self.down = nn.Linear(e, c["feedforward"]), nn.Linear(c["feedforward"], e)
        self.norm1, self.norm2 = nn.LayerNorm(e), nn.LayerNorm(e)
        self.heads = c["heads"]

    def forward(self, x):
        weights = (self.qkv.weight, self.qkv.bias, None, None, False, 0.0, self.joined.weight, self.joined.bias)
        t = x.transpose(0, 1)
        mixed, _ = F.multi_head_attention_forward(t, t, t, t.shape[-1], self.heads, *weights, need_weights=False)
        x = self.norm1(x + mixed.transpose(0, 1))
        return self.norm2(x + self.down(F.relu(self.up(x))))


class Bins(nn.Module):
    def __init__(self, c, width):
        super().__init__()
        e = c["embed"]
        self.patches = nn.Conv2d(width, e, c["patch"], c["patch"])
        self.positions = nn.Parameter(torch.zeros(c["positions"], e))
        for i in range(c["layers"]):
            self.add_module(f"layer{i + 1}", TransformerLayer(c))
        self.widths = named(
            first=nn.Linear(e, c["hidden"]), second=nn.Linear(c["hidden"], c["hidden"]), third=nn.Linear(c["hidden"], c["count"])
        )
        self.features = nn.Conv2d(width, e, 3, padding=1)
        self.out = nn.Conv2d(c["queries"], c["count"], 1)
        self.c = c

    def forward(self, x, low, high):
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        tokens = tokens + self.positions[: tokens.shape[1]]
        for i in range(self.c["layers"]):
            tokens = getattr(self, f"layer{i + 1}")(tokens)
        w = self.widths
        raw = w["third"](F.leaky_relu(w["second"](F.leaky_relu(w["first"](tokens[:, 0])))))
        shares = F.relu(raw) + 0.1
        upto = (shares / shares.sum(1, keepdim=True)).cumsum(1)
        if self.c["spacing"] == "log":
            upper = torch.exp(upto * math.log(high / low) + math.log(low))
        else:
            upper = upto * (high - low) + low
        edges = torch.cat([torch.full_like(upper[:, :1], low), upper.clamp(low, high)], 1)
        centres = 0.5 * (edges[:, 1:] + edges[:, :-1])
        queries = tokens[:, 1 : 1 + self.c["queries"]]
        features = self.features(x)
        ranges = torch.einsum("bqc,bchw->bqhw", queries, features)
        shares = self.out(ranges).softmax(1)
        return (shares * centres[:, :, None, None]).sum(1, keepdim=True), centres


class AdaBins(nn.Module):
    def __init__(self, c):
        super().__init__()
        if c["encoder"] == "efficientnet-b5":
            self.encoder, channels = EfficientNet(), [24, 40, 64, 176, 2048]
        else:
            channels = c["encoder"]["plain"]["widths"]
            self.encoder = PlainEncoder(channels, c["norm"])
        self.decoder = Decoder(c["decoder"], channels, c["norm"])
        self.bins = Bins(c["bins"], c["decoder"]["widths"][-1])
        self.range = c["range"]

    def forward(self, x):
        depth, centres = self.bins(self.decoder(self.encoder(x)), self.range["min_m"], self.range["cap_m"])
        depth = F.interpolate(depth, size=x.shape[2:], mode="bilinear", align_corners=True)
        return {"depth": depth, "centres": centres}


# ---- windows ----


def cut(x, side):
    b, h, w, c = x.shape
    return x.view(b, h // side, side, w // side, side, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, side * side, c)


def join(windows, side, h, w):
    x = windows.view(-1, h // side, w // side, side, side, windows.shape[-1])
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, h, w, windows.shape[-1])


def shift_mask(side, h, w):
    regions = torch.zeros(1, h, w, 1)
    spans = (slice(0, -side), slice(-side, -(side // 2)), slice(-(side // 2), None))
    for i, rows in enumerate(spans):
        for j, columns in enumerate(spans):
            regions[:, rows, columns] = 3 * i + j
    regions = cut(regions, side).squeeze(-1)
    apart = regions.unsqueeze(1) != regions.unsqueeze(2)
    return torch.zeros_like(apart, dtype=torch.float32).masked_fill(apart, -100.0)


class Attention(nn.Module):
    def __init__(self, dim, heads, side, given):
        super().__init__()
        self.heads, self.given = heads, given
        self.relative_position_bias_table = nn.Parameter(torch.zeros((2 * side - 1) ** 2, heads))
        if given:
            self.qk = nn.Linear(dim, 2 * dim)
        else:
            self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        ys, xs = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
        at = torch.stack([ys.flatten(), xs.flatten()])
        gap = at[:, :, None] - at[:, None, :] + side - 1
        self.register_buffer("index", gap[0] * (2 * side - 1) + gap[1], persistent=False)

    def forward(self, x, v, mask):
        b, n, c = x.shape
        d = c // self.heads
        if self.given:
            q, k = self.qk(x).reshape(b, n, 2, self.heads, d).permute(2, 0, 3, 1, 4)
            v = v.view(b, n, self.heads, d).transpose(1, 2)
        else:
            q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, d).permute(2, 0, 3, 1, 4)
        logits = (q * d**-0.5) @ k.transpose(-2, -1)
        bias = self.relative_position_bias_table[self.index.view(-1)].view(n, n, -1).permute(2, 0, 1).contiguous()
        logits = logits + bias.unsqueeze(0)
        if mask is not None:
            count = mask.shape[0]
            logits = logits.view(b // count, count, self.heads, n, n) + mask.unsqueeze(1).unsqueeze(0)
            logits = logits.view(-1, self.heads, n, n)
        x = (logits.softmax(-1) @ v).transpose(1, 2).reshape(b, n, c)
        return self.proj(x)


class WindowBlock(nn.Module):
    def __init__(self, dim, heads, side, shifted, given):
        super().__init__()
        self.side, self.shift, self.given = side, side // 2 if shifted else 0, given
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = Attention(dim, heads, side, given)
        self.mlp = named(fc1=nn.Linear(dim, 4 * dim), fc2=nn.Linear(4 * dim, dim))

    def forward(self, x, v, mask):
        _, h, w, _ = x.shape
        side, shift = self.side, self.shift
        pad = (0, 0, 0, -w % side, 0, -h % side)

        def windows(map):
            map = F.pad(map, pad)
            if shift:
                map = torch.roll(map, (-shift, -shift), (1, 2))
            return cut(map, side)

        mixed = self.attn(windows(self.norm1(x)), windows(v) if self.given else None, mask if shift else None)
        mixed = join(mixed, side, h + -h % side, w + -w % side)
        if shift:
            mixed = torch.roll(mixed, (shift, shift), (1, 2))
        x = x + mixed[:, :h, :w]
        return x + self.mlp["fc2"](F.gelu(self.mlp["fc1"](self.norm2(x))))


def mask_for(x, side):
    _, h, w, _ = x.shape
    return shift_mask(side, h + -h % side, w + -w % side)


class Swin(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.side = c["window"]
        width = c["width"]
        self.patch_embed = named(proj=nn.Conv2d(3, width, 4, 4), norm=nn.LayerNorm(width))
        self.layers = nn.ModuleList()
        for s, (depth, heads) in enumerate(zip(c["depths"], c["heads"])):
            dim = width * 2**s
            blocks = nn.ModuleList(WindowBlock(dim, heads, self.side, b % 2 == 1, False) for b in range(depth))
            stage = named(blocks=blocks)
            if s < 3:
                stage["downsample"] = named(norm=nn.LayerNorm(4 * dim), reduction=nn.Linear(4 * dim, 2 * dim, bias=False))
            self.layers.append(stage)
            self.add_module(f"norm{s}", nn.LayerNorm(dim))

    def forward(self, x):
        x = self.patch_embed["norm"](self.patch_embed["proj"](x).permute(0, 2, 3, 1))
        maps = []
        for s, stage in enumerate(self.layers):
            mask = mask_for(x, self.side)
            for block in stage["blocks"]:
                x = block(x, None, mask)
            maps.append(getattr(self, f"norm{s}")(x).permute(0, 3, 1, 2).contiguous())
            if s < 3:
                x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
                x = stage["downsample"]["reduction"](stage["downsample"]["norm"](x))
        return maps


class CrfStage(nn.Module):
    def __init__(self, features, values, dim, heads):
        super().__init__()
        self.proj_x = nn.Conv2d(features, dim, 3, padding=1) if features != dim else None
        self.proj_v = nn.Conv2d(values, dim, 3, padding=1) if values != dim else None
        self.crf_layer = named(blocks=nn.ModuleList(WindowBlock(dim, heads, 7, b == 1, True) for b in range(2)))
        self.norm_crf = nn.LayerNorm(dim)

    def forward(self, x, v):
        x = (self.proj_x(x) if self.proj_x else x).permute(0, 2, 3, 1)
        v = (self.proj_v(v) if self.proj_v else v).permute(0, 2, 3, 1)
        mask = mask_for(x, 7)
        for block in self.crf_layer["blocks"]:
            x = block(x, v, mask)
        return self.norm_crf(x).permute(0, 3, 1, 2).contiguous()


# ---- NeWCRFs ----


class Pyramid(nn.Module):
    def __init__(self, width, c):
        super().__init__()
        group = {"group": c["group"]}
        self.pools = nn.ModuleList(
            named(conv=nn.Conv2d(width, c["width"], 1, bias=False), norm=norm2d(group, c["width"])) for _ in range(4)
        )
        self.join = named(
            conv=nn.Conv2d(width + 4 * c["width"], c["width"], 3, padding=1, bias=False), norm=norm2d(c["norm"], c["width"])
        )

    def forward(self, x):
        maps = [x]
        for pool, cells in zip(self.pools, (1, 2, 3, 6)):
            y = F.relu(pool["norm"](pool["conv"](F.adaptive_avg_pool2d(x, cells))))
            maps.append(F.interpolate(y, size=x.shape[2:], mode="bilinear", align_corners=False))
        return F.relu(self.join["norm"](self.join["conv"](torch.cat(maps, 1))))


class NewCrfs(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.encoder = Swin(c["encoder"])
        channels = [c["encoder"]["width"] * 2**s for s in range(4)]
        self.pyramid = Pyramid(channels[3], c["pyramid"])
        values = c["pyramid"]["width"]
        for s, (dim, heads) in enumerate(zip(c["widths"], c["heads"])):
            self.add_module(f"crf{3 - s}", CrfStage(channels[3 - s], values, dim, heads))
            values = dim // 4
        self.head = named(out=nn.Conv2d(c["widths"][-1], 1, 3, padding=1))
        self.c = c

    def forward(self, x):
        maps = self.encoder(x)
        y = self.pyramid(maps[3])
        for s in (3, 2, 1, 0):
            y = getattr(self, f"crf{s}")(maps[s], y if s == 3 else F.pixel_shuffle(y, 2))
        share = F.interpolate(torch.sigmoid(self.head["out"](y)), size=x.shape[2:], mode="bilinear", align_corners=False)
        low, high = self.c["range"]["min_m"], self.c["range"]["cap_m"]
        if self.c["spacing"] == "log":
            return {"depth": torch.exp(share * math.log(high / low) + math.log(low))}
        return {"depth": share * high}


# ---- DCDepth ----


def cosines(n):
    k, i = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
    rows = torch.cos(math.pi * (2 * i.double() + 1) * k / (2 * n)) * math.sqrt(2 / n)
    rows[0] /= math.sqrt(2)
    return rows.float()


class DctDownsample(nn.Module):
    def __init__(self, factor, reduction, a, b, norm):
        super().__init__()
        self.factor = factor
        self.register_buffer("t", cosines(factor), persistent=False)
        kept = factor**2 // reduction * a
        self.conv1 = nn.Conv2d(factor**2 * a, kept, 1, groups=a)
        self.conv2 = nn.Sequential(nn.Conv2d(kept, b, 1), nn.Conv2d(b, b, 5, padding=2, groups=b, bias=False), norm2d(norm, b))

    def forward(self, x):
        b, c, h, w = x.shape
        f = self.factor
        x = x.view(b, c, h // f, f, w // f, f).transpose(3, 4).contiguous()
        x = (self.t @ x @ self.t.T).flatten(-2).permute(0, 1, 4, 2, 3).reshape(b, c * f * f, h // f, w // f)
        return self.conv2(self.conv1(x))


class ChannelWeights(nn.Module):
    def __init__(self, width, reduction):
        super().__init__()
        few = max(width // reduction, 16)
        self.attention = nn.Sequential(nn.Linear(width, few), nn.Hardswish(), nn.Linear(few, width), nn.Sigmoid())

    def forward(self, x):
        return x * self.attention(x.mean((2, 3)))[..., None, None]


class Fusion(nn.Module):
    def __init__(self, channels, width, norm):
        super().__init__()
        self.downs = nn.ModuleList(DctDownsample(f, 4, a, width, norm) for f, a in zip((8, 4, 2), channels))
        every = 3 * width + channels[3]
        self.fuse = nn.Sequential(
            ChannelWeights(every, 16),
            nn.Conv2d(every, width, 1),
            nn.Conv2d(width, width, 7, padding=3, groups=width, bias=False),
            norm2d(norm, width),
            nn.Hardswish(),
        )

    def forward(self, maps):
        return self.fuse(torch.cat([down(x) for down, x in zip(self.downs, maps)] + [maps[3]], 1))


def edge_conv(a, b, k, stride=1, groups=1):
    return nn.Conv2d(a, b, k, stride, (k - 1) // 2, groups=groups, padding_mode="replicate")


class Coefficients(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.zeros(1, 64, width))
        self.tokenize = nn.Sequential(
            nn.Sequential(edge_conv(1, width // 2, 7), nn.Hardswish()),
            nn.Sequential(edge_conv(width // 2, width, 3), nn.Hardswish()),
            edge_conv(width, width, 3),
        )
        self.attn = named(q=nn.Linear(width, width), kv=nn.Linear(width, 2 * width), proj=nn.Linear(width, width))
        self.norm = nn.LayerNorm(width)
        self.heads = heads

    def forward(self, x):
        b, n, h, w = x.shape
        c = self.cls_token.shape[-1]
        d = c // self.heads
        x = self.tokenize(x.reshape(b * n, 1, h, w)).view(b, n, c, h, w)
        x = x.permute(0, 3, 4, 1, 2).reshape(b * h * w, n, c) + self.pos_embed[:, :n]
        x = torch.cat([self.cls_token.expand(b * h * w, 1, c), x], 1)
        y = self.norm(x)
        q = self.attn["q"](y[:, :1]).reshape(-1, 1, self.heads, d).transpose(1, 2) * d**-0.5
        k, v = self.attn["kv"](y).reshape(-1, n + 1, 2, self.heads, d).permute(2, 0, 3, 1, 4)
        y = ((q @ k.transpose(-2, -1)).softmax(-1) @ v).transpose(1, 2).reshape(-1, 1, c)
        x = (x[:, :1] + self.attn["proj"](y)).squeeze(1)
        return x.view(b, h, w, c).permute(0, 3, 1, 2).contiguous()


class StepInput(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.depth_in = nn.Sequential(
            nn.Sequential(edge_conv(1, width // 2, 7, 2), nn.Hardswish()),
            nn.Sequential(edge_conv(width // 2, width, 3, 2), nn.Hardswish()),
            edge_conv(width, width, 3, 2),
        )
        self.depth_freq_in = Coefficients(width, heads)
        self.fuse = nn.Sequential(
            ChannelWeights(2 * width, 8),
            nn.Sequential(edge_conv(2 * width, 2 * width, 7, groups=2 * width), nn.Conv2d(2 * width, hidden, 1)),
        )

    def forward(self, depth, coefficients):
        return self.fuse(torch.cat([self.depth_in(depth), self.depth_freq_in(coefficients)], 1))


class SeparableGru(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        for n, k, p in ((1, (1, 5), (0, 2)), (2, (5, 1), (2, 0))):
            for gate in "zrq":
                self.add_module(f"conv{gate}{n}", nn.Conv2d(2 * hidden, hidden, k, padding=p))

    def forward(self, h, x):
        for n in (1, 2):
            z, r, q = (getattr(self, f"conv{gate}{n}") for gate in "zrq")
            both = torch.cat([h, x], 1)
            gate, reset = torch.sigmoid(z(both)), torch.sigmoid(r(both))
            new = torch.tanh(q(torch.cat([reset * h, x], 1)))
            h = (1 - gate) * h + gate * new
        return h


class LightPyramid(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.pool_convs = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(4))
        self.squeeze = nn.Sequential(
            nn.Sequential(edge_conv(5 * width, 5 * width, 7, groups=5 * width), nn.Conv2d(5 * width, width, 1)), nn.Hardswish()
        )

    def forward(self, x):
        h, w = x.shape[2:]
        maps = [x]
        for conv, s in zip(self.pool_convs, (1, 2, 3, 6)):
            cells = (round(h / w * s), s) if h >= w else (s, round(w / h * s))
            y = conv(F.adaptive_avg_pool2d(x, cells))
            maps.append(F.interpolate(y, size=(h, w), mode="bilinear", align_corners=True))
        return self.squeeze(torch.cat(maps, 1))


class Update(nn.Module):
    def __init__(self, c, finest):
        super().__init__()
        hidden = c["widths"][2]
        diagonals = [[(s - j) * 8 + j for j in range(max(0, s - 7), min(s, 7) + 1)] for s in range(15)]
        self.known = [sum(diagonals[:n], []) for n in (1, 2, 3, 4, 5, 6, 8, 15)] + [list(range(64))]
        self.in_proj = StepInput(c["features"], c["feature_heads"], hidden)
        self.gru = SeparableGru(hidden)
        self.heads = named(
            ppm=LightPyramid(hidden),
            convs=nn.ModuleList(edge_conv(hidden, len(set), 3) for set in self.known),
        )
        embeddings = nn.ParameterList(nn.Parameter(torch.zeros(1, hidden, 1, 1)) for _ in self.known)
        self.heads["idx_embed"] = embeddings
        self.project_context = DctDownsample(2, 2, finest, finest, c["norm"])
        self.project_hidden = nn.Conv2d(hidden + finest, hidden, 3, padding=1)
        self.register_buffer("t", cosines(8), persistent=False)
        self.scale = math.log(c["range"]["cap_m"]) * 4

    def forward(self, h, e1, finest):
        state = torch.tanh(self.project_hidden(torch.cat([e1, self.project_context(finest)], 1)))
        b, _, hh, ww = state.shape
        steps, coefficients, depth = [], torch.zeros(b, 64, hh, ww), None
        for k, set in enumerate(self.known):
            if k > 0:
                seen = coefficients.detach()[:, self.known[k - 1]]
                state = self.gru(state, self.in_proj(depth.detach(), seen))
            out = self.heads["convs"][k](self.heads["ppm"](state + self.heads["idx_embed"][k]))
            index = torch.tensor(set)[None, :, None, None].expand_as(out)
            coefficients = torch.zeros(b, 64, hh, ww).scatter(1, index, out) + coefficients.detach()
            patches = coefficients.permute(0, 2, 3, 1).reshape(b, hh, ww, 8, 8)
            depth = (self.t.T @ patches @ self.t) * self.scale
            depth = depth.permute(0, 1, 3, 2, 4).reshape(b, 1, hh * 8, ww * 8)
            steps.append((depth, coefficients))
        return steps


class DcDepth(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.encoder = Swin(c["encoder"])
        channels = [c["encoder"]["width"] * 2**s for s in range(4)]
        self.decoder = Fusion(channels, c["fused"], c["norm"])
        values = c["fused"]
        for s, (dim, heads) in enumerate(zip(c["widths"], c["heads"])):
            self.add_module(f"crf{3 - s}", CrfStage(channels[3 - s], values, dim, heads))
            values = dim // 4
        self.update = Update(c, channels[0])
        self.c = c

    def forward(self, x):
        maps = self.encoder(x)
        y = self.decoder(maps)
        for s in (3, 2, 1):
            y = getattr(self, f"crf{s}")(maps[s], y if s == 3 else F.pixel_shuffle(y, 2))
        steps = self.update(None, y, maps[0])
        low, high = self.c["range"]["min_m"], self.c["range"]["cap_m"]
        return {"depth": steps[-1][0].clamp(math.log(low), math.log(high)).exp(), "steps": steps}


# ---- losses ----


def root(error, silog):
    mean = error.mean()
    if silog is None:
        radicand = error.var() + 0.15 * mean.square()
    else:
        radicand = error.square().mean() - silog * mean.square()
    return radicand.clamp_min(1e-12).sqrt() * 10.0


def silog(log_depth, truth, job):
    valid = truth > job["above_m"]
    if job["pooling"] == "batch":
        return root(log_depth[valid] - truth[valid].log(), job["silog"])
    losses = [
        root(p[v] - t[v].log(), job["silog"]) for p, t, v in zip(log_depth, truth, valid) if v.any()
    ]
    return torch.stack(losses).mean()


def chamfer(centres, truth):
    losses = []
    for c, t in zip(centres, truth):
        gaps = (c[:, None] - t[t > 0][None, :]).square()
        losses.append(gaps.amin(1).mean() + gaps.amin(0).mean())
    return torch.stack(losses).mean()


def objective(out, truth, job):
    if "steps" not in out:
        loss = silog(out["depth"].clamp_min(1e-6).log(), truth, job)
        if "centres" in out and job["chamfer"] > 0:
            stride = job["chamfer_stride"]
            loss = loss + job["chamfer"] * chamfer(out["centres"], truth[:, :, ::stride, ::stride])
        return loss
    count = len(out["steps"])
    weights = [job["step_decay"] ** (count - 1 - k) for k in range(count)]
    i, j = torch.meshgrid(torch.arange(8), torch.arange(8), indexing="ij")
    frequency = 1.2 ** (i + j) - 1
    frequency = (frequency / frequency.sum()).flatten()[None, :, None, None]
    total = 0.0
    for k, ((depth, coefficients), weight) in enumerate(zip(out["steps"], weights)):
        loss = silog(depth, truth, job)
        if k > 0:
            loss = loss + job["frequency"] * (coefficients.abs() * frequency).sum(1).mean()
        total = total + loss * weight / sum(weights)
    return total


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main():
    folder, steps = sys.argv[1], int(sys.argv[2])
    job = json.load(open(f"{folder}/job.json"))
    torch.set_num_threads(job["threads"])
    state, expected = load_file(f"{folder}/state.safetensors"), load_file(f"{folder}/expected.safetensors")
    pictures, truth = state.pop("pictures"), state.pop("truth")
    (kind, config), = job["network"].items()
    network = {"adabins": AdaBins, "newcrfs": NewCrfs, "dcdepth": DcDepth}[kind](config)
    missing, surplus = network.load_state_dict(state, strict=False)
    missing = [name for name in missing if not name.endswith("num_batches_tracked")]
    if missing or surplus:
        sys.exit(f"tensors do not match: missing {missing}, surplus {surplus}")

    network.eval()
    with torch.no_grad():
        depth = network(pictures)["depth"]
    gap = ((depth - expected["depth"]).abs() / expected["depth"].abs().clamp_min(1e-6)).max().item()
    # Training mode, but without omissions, whose draws differ: the Rust side leaves them out too.
    network.train()
    optimiser = torch.optim.AdamW(network.parameters(), lr=job["learning_rate"], weight_decay=0.01, betas=(0.9, 0.99))
    times, losses = [], []
    for _ in range(steps):
        wall, used = time.perf_counter(), processor_seconds()
        loss = objective(network(pictures), truth, job)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 5.0)
        optimiser.step()
        times.append((time.perf_counter() - wall, processor_seconds() - used))
        losses.append(loss.item())
    print(json.dumps({"torch": torch.__version__, "gap": gap, "losses": losses, "times": times}))


if __name__ == "__main__":
    main()
