"""List torch's operators that round element by element. Those that sum are in `reordered_sums`."""

from __future__ import annotations

_ROUNDED = """
add.Tensor add_.Tensor addcdiv_.default addcmul_.default div.Scalar div.Tensor div_.Scalar div_.Tensor lerp_.Scalar
log.default mse_loss_backward.default mul.Scalar mul.Tensor mul_.Tensor nll_loss_backward.default pow.Tensor_Scalar
sigmoid.default sigmoid_.default sigmoid_backward.default sqrt.default sub.Tensor tanh.default tanh_.default
tanh_backward.default _fused_sgd_.default
"""

_EXACT = """
arange.default arange.start arange.start_step argmax.default bernoulli_.float cat.default clone.default copy_.default
_to_copy.default detach.default embedding.default empty.memory_format empty_like.default expand.default fill_.Scalar
floor_divide.default gather.default ge.Scalar index.Tensor lift_fresh.default _local_scalar_dense.default
max_pool2d_with_indices.default neg.default new_empty.default new_zeros.default normal_.default ones.default
ones_like.default rand.generator randint.generator randn.generator relu.default relu_.default remainder.Scalar
scatter_.value select.int select_backward.default set_.source_Storage set_.source_Storage_storage_offset slice.Tensor
slice_backward.default split.Tensor split_with_sizes.default squeeze.dim stack.default t.default
threshold_backward.default transpose.int unbind.int uniform_.default unsafe_chunk.default unsafe_split.Tensor
_unsafe_view.default unsqueeze.default view.default zero_.default zeros.default zeros_like.default
"""

# Operators that round every element by itself.
ROUNDED = frozenset(_ROUNDED.split())
# Operators that do not round: views, copies, draws, comparisons, and those that only overwrite numbers.
EXACT = frozenset(_EXACT.split())
