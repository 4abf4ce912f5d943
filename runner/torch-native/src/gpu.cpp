// GPUs: libtorch's library for them, its settings, and waiting for a GPU.

#include <cstdint>
#include <stdexcept>
#include <string>

#include <dlfcn.h>

#include <ATen/Context.h>
#include <torch/csrc/api/include/torch/cuda.h>

#include "failure.h"

namespace {

// The library registers its operations when it is loaded, so that a program need not be linked to it and runs without.
constexpr char LIBRARY[] = "libtorch_cuda.so";
// Operations without such an algorithm warn.
constexpr bool WARN_ONLY = true;

} // namespace

extern "C" {

// Loads the library and has it compute in 32 bits with algorithms whose sums have one order; those of cuBLAS have it where
// CUBLAS_WORKSPACE_CONFIG is ":4096:8". A second call changes nothing.
bool bakeoff_gpus_use(char *error, std::size_t room) {
    const auto work = [&] {
        if (dlopen(LIBRARY, RTLD_NOW | RTLD_GLOBAL) == nullptr) {
            const char *reason = dlerror();
            throw std::runtime_error(reason == nullptr ? LIBRARY : reason);
        }
        at::Context &context = at::globalContext();
        context.setAllowTF32CuBLAS(false);
        context.setAllowTF32CuDNN(false);
        context.setBenchmarkCuDNN(false);
        context.setDeterministicCuDNN(true);
        context.setDeterministicAlgorithms(true, WARN_ONLY);
        // The fused kernels of attention add in any order in their backward pass; its formula does not.
        context.setSDPUseFlash(false);
        context.setSDPUseMemEfficient(false);
        context.setSDPUseCuDNN(false);
    };
    return bakeoff::succeeds(work, error, room);
}

// Number of GPUs; none before the library is loaded.
std::uint32_t bakeoff_gpus() {
    try {
        return static_cast<std::uint32_t>(torch::cuda::device_count());
    } catch (...) {
        return 0;
    }
}

// Waits until all work of a GPU is done.
bool bakeoff_gpu_settle(std::uint32_t index, char *error, std::size_t room) {
    return bakeoff::succeeds([&] { torch::cuda::synchronize(index); }, error, room);
}
}
