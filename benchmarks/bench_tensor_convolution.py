"""Convolution by each of its ways: loops over windows, Winograd, depthwise, transposed."""

from .common import library, numbers

# Input, weight, and what conv2d is told.
CASES = {
    "3x3 winograd": ((8, 64, 56, 56), (64, 64, 3, 3), {"padding": 1}),
    "3x3 small": ((16, 16, 32, 32), (16, 16, 3, 3), {"padding": 1}),
    "3x3 of 7x7": ((8, 256, 7, 7), (256, 256, 3, 3), {"padding": 1}),
    "7x7 stride 2": ((4, 3, 224, 224), (64, 3, 7, 7), {"padding": 3, "stride": 2}),
    "1x1": ((8, 64, 56, 56), (64, 64, 1, 1), {}),
    "depthwise": ((8, 64, 56, 56), (64, 1, 3, 3), {"padding": 1, "groups": 64}),
    "depthwise 7x7": ((8, 256, 14, 14), (256, 1, 7, 7), {"padding": 3, "groups": 256}),
}


class Conv2d:
    params = list(CASES)
    param_names = ("case",)

    def setup(self, case):
        torch = library("nn.functional.conv2d")
        x, w, options = CASES[case]
        self.x, self.w = (torch.from_numpy(numbers(*shape)).requires_grad_() for shape in (x, w))
        self.conv = lambda x, w: torch.nn.functional.conv2d(x, w, **options)
        self.time_forward(case), self.time_both(case)

    def time_forward(self, case):
        self.conv(self.x.detach(), self.w.detach())

    def time_both(self, case):
        self.conv(self.x, self.w).sum().backward()


class ConvTranspose2d:
    def setup(self):
        torch = library("nn.functional.conv_transpose2d")
        x, w = torch.from_numpy(numbers(8, 128, 16, 16)), torch.from_numpy(numbers(128, 64, 4, 4))
        self.run = lambda: torch.nn.functional.conv_transpose2d(x, w, stride=2, padding=1)
        self.run()

    def time_stride_2(self):
        self.run()
