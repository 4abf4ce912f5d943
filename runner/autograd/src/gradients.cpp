// torch::autograd's engine for a result of any shape, which the bindings of tch start from a scalar only.

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/autograd.h>

// Writes new tensors, which the caller owns, to `gradients`: of each input the vector-Jacobian product of `result` with
// `of_result`, not defined where the result does not depend on the input. Returns null, or the text of an error, which the caller
// frees; then nothing was written.
extern "C" char *bakeoff_gradients(const at::Tensor *result, const at::Tensor *of_result, const at::Tensor *const *inputs,
                                   std::size_t count, at::Tensor **gradients) {
    constexpr bool keep_graph = false;
    constexpr bool create_graph = false;
    constexpr bool allow_unused = true;
    try {
        torch::autograd::variable_list leaves;
        leaves.reserve(count);
        for (std::size_t place = 0; place < count; ++place) {
            leaves.push_back(*inputs[place]);
        }
        auto found = torch::autograd::grad({*result}, leaves, {*of_result}, keep_graph, create_graph, allow_unused);
        for (std::size_t place = 0; place < count; ++place) {
            gradients[place] = new at::Tensor(std::move(found.at(place)));
        }
        return nullptr;
    } catch (const std::exception &error) {
        return strdup(error.what());
    } catch (...) {
        return strdup("an exception of an unknown type");
    }
}
