"""How ops that are no loops over elements are said in numpy: a template of an expression for each.

In braces stand operands by name and params by name. An op that is variadic gives all its operands as `{operands}`.
Functions that are no numpy's are those of `helpers`. Ops with a decomposition need no row.
"""

from __future__ import annotations

ROWS = {
    # creation and copies
    "full": "np.full({shape}, {fill_value}, {dtype})",
    "arange": "({start} + {step} * np.arange({length})).astype({dtype})",
    "linspace": "np.linspace({start}, {end}, {steps}).astype({dtype})",
    "eye": "np.eye({n}, {m}, dtype={dtype})",
    "convert": "{input}.astype({dtype})",
    "fill": "np.full_like({input}, {value})",
    "pad": "pad({input}, {value}, {before}, {after})",
    # views
    "detach": "{input}",
    "alias": "{input}",
    "expand": "np.broadcast_to({input}, {shape})",
    "view": "{input}.reshape({shape})",
    "permute": "{input}.transpose({dims})",
    "select": "{input}.take({index}, {dim})",
    "slice": "{input}.take(range({start}, {start} + {length} * {step}, {step}), {dim})",
    "unbind": "tuple(np.moveaxis({input}, {dim}, 0))",
    "split": "tuple(np.split({input}, np.cumsum({sizes})[:-1], {dim}))",
    "diagonal": "np.diagonal({input}, {offset}, {dim1}, {dim2})",
    "unfold": "unfold({input}, {dim}, {size}, {step})",
    "real": "np.real({input})",
    "imag": "np.imag({input})",
    "view_as_real": "np.stack((np.real({input}), np.imag({input})), -1)",
    "view_as_complex": "complex_of({input}[..., 0], {input}[..., 1])",
    "complex": "complex_of({real}, {imag})",
    "view_dtype": "np.ascontiguousarray({input}).view({dtype})",
    # joining and rearranging
    "cat": "np.concatenate(({operands},), {dim})",
    "stack": "np.stack(({operands},), {dim})",
    "flip": "np.flip({input}, {dims})",
    "tril": "np.tril({input}, {diagonal})",
    "triu": "np.triu({input}, {diagonal})",
    # reductions and scans
    "sum": "np.sum({input}, axis={dim}, keepdims={keepdim}, dtype={dtype})",
    "prod": "np.prod({input}, axis={dim}, keepdims={keepdim}, dtype={dtype})",
    "any": "np.any({input}, axis={dim}, keepdims={keepdim})",
    "all": "np.all({input}, axis={dim}, keepdims={keepdim})",
    "amax": "np.max({input}, axis={dim}, keepdims={keepdim})",
    "amin": "np.min({input}, axis={dim}, keepdims={keepdim})",
    "argmax": "position(np.argmax, {input}, {dim}, {keepdim})",
    "argmin": "position(np.argmin, {input}, {dim}, {keepdim})",
    "var": "var({input}, {dim}, {keepdim}, {correction})",
    "std": "np.sqrt(var({input}, {dim}, {keepdim}, {correction}))",
    "logsumexp": "logsumexp({input}, {dim}, {keepdim})",
    "cumsum": "scan(np.add, {input}, {dim}, {dtype}, {reverse})",
    "cumprod": "scan(np.multiply, {input}, {dim}, {dtype}, {reverse})",
    # products, convolution, pooling
    "matmul": "{input} @ {other}",
    "linear": "linear({input}, {weight}, {bias})",
    "linear_weight_grad": "linear_weight_grad({input}, {grad})",
    "conv": "conv({input}, {weight}, {bias}, {stride}, {padding}, {dilation}, {groups})",
    "conv_weight_grad": "conv_weight_grad({input}, {grad}, {kernel_size}, {stride}, {padding}, {dilation}, {groups})",
    "conv_transpose": "conv_transpose({input}, {weight}, {bias}, {stride}, {padding}, {output_padding}, {dilation}, "
                      "{groups})",
    "max_pool": "max_pool({input}, {kernel_size}, {stride}, {padding}, {dilation}, {ceil_mode})",
    "avg_pool": "avg_pool({input}, {kernel_size}, {stride}, {padding}, {ceil_mode}, {count_include_pad}, {divisor})",
    # rows and losses
    "softmax": "softmax({input}, {dim})",
    "log_softmax": "log_softmax({input}, {dim})",
    "softmax_backward": "{output} * ({grad} - ({grad} * {output}).sum(axis={dim}, keepdims=True))",
    "log_softmax_backward": "{grad} - np.exp({output}) * {grad}.sum(axis={dim}, keepdims=True)",
    "nll_loss": "nll_loss({input}, {target}, {weight}, {ignore_index}, {reduction})",
    # indexing
    "index": "{input}[whole_index(({indices},))]",
    "index_select": "np.take({input}, checked({index}, {input}.shape[{dim}]), {dim})",
    "gather": "gather({input}, {index}, {dim})",
    "take": "{input}.reshape(-1)[checked({index}, {input}.size, -{input}.size)]",
    "embedding": "{weight}[checked({indices}, len({weight}))]",
    "embedding_backward": "embedding_backward({grad}, {indices}, {rows}, {padding_idx}, {scale_grad_by_freq})",
    "scatter": "scattered({input}, {index}, {src}, {dim}, False)",
    "scatter_add": "scattered({input}, {index}, {src}, {dim}, True)",
    "index_put": "index_put({input}, {values}, {indices}, accumulate={accumulate})",
    "index_copy": "along({input}, {index}, {source}, {dim}, False)",
    "index_add": "along({input}, {index}, {source}, {dim}, True)",
    "index_fill": "along({input}, {index}, {value}, {dim}, False, True)",
    "masked_fill": "np.where({mask}, {value}, {input})",
    # order
    "argsort": "argsort({input}, {dim}, {descending}, {stable})",
    "topk": "topk({input}, {k}, {dim}, {largest}, {sorted})",
    "searchsorted": "np.searchsorted({sorted_sequence}, {input}, 'right' if {right} else 'left')",
    "isin": "np.isin({elements}, {test_elements}, invert={invert})",
    # linear algebra and Fourier transforms
    "inv": "np.linalg.inv({input})",
    "solve": "np.linalg.solve({input}, {other})",
    "det": "np.linalg.det({input})",
    "slogdet": "np.linalg.slogdet({input})",
    "eigh": "np.linalg.eigh({input}, {uplo})",
}
