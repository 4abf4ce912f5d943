// torch::autograd's engine for a result of any shape, which the bindings of tch start from a scalar only.

#include <memory>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/autograd.h>

#include "failure.h"

// Writes new tensors, which the caller owns, to `gradients`: of each input the vector-Jacobian product of `result` with
// `of_result`, not defined where the result does not depend on the input. On failure it writes nothing there.
extern "C" bool bakeoff_gradients(const at::Tensor *result, const at::Tensor *of_result, const at::Tensor *const *inputs,
                                  std::size_t count, at::Tensor **gradients, char *error, std::size_t room) {
    const auto work = [&] {
        constexpr bool keep_graph = false;
        constexpr bool create_graph = false;
        constexpr bool allow_unused = true;
        torch::autograd::variable_list leaves;
        leaves.reserve(count);
        for (std::size_t place = 0; place < count; ++place) {
            leaves.push_back(*inputs[place]);
        }
        auto found = torch::autograd::grad({*result}, leaves, {*of_result}, keep_graph, create_graph, allow_unused);
        std::vector<std::unique_ptr<at::Tensor>> owned;
        owned.reserve(count);
        for (std::size_t place = 0; place < count; ++place) {
            owned.push_back(std::make_unique<at::Tensor>(std::move(found.at(place))));
        }
        for (std::size_t place = 0; place < count; ++place) {
            gradients[place] = owned[place].release();
        }
    };
    return bakeoff::succeeds(work, error, room);
}
