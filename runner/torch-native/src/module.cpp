// TorchScript modules, of which the bindings of tch show the parameters and not the buffers or the modules inside.

#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include "failure.h"

using torch::jit::Module;

namespace {

// What `nn.Sequential` is called in an archive, but for the atom that tells classes of one name apart.
constexpr char SEQUENTIAL[] = "__torch__.torch.nn.modules.container.Sequential";
constexpr char MANGLED[] = "___torch_mangle_";
// The buffer by which a module is known that normalises by the batch in training and by running moments else.
constexpr char MOMENTS[] = "running_mean";
constexpr char TRAINING[] = "training";

// A class's name without the atoms that make it unique.
std::string plain_name(const c10::QualifiedName &name) {
    std::string plain;
    for (const std::string &atom : name.atoms()) {
        if (atom.rfind(MANGLED, 0) != 0) {
            plain += plain.empty() ? atom : "." + atom;
        }
    }
    return plain;
}

} // namespace

// Called for each thing that was asked for, with its name, and the tensor, which the callee owns, if it is one.
using See = void (*)(void *context, const char *name, at::Tensor *tensor);

extern "C" {

// Reads an archive from memory into a new module, which the caller drops.
bool bakeoff_module_read(const char *bytes, std::size_t length, Module **module, char *error, std::size_t room) {
    const auto work = [&] {
        std::istringstream archive(std::string(bytes, length));
        *module = std::make_unique<Module>(torch::jit::load(archive, at::kCPU)).release();
    };
    return bakeoff::succeeds(work, error, room);
}

// Moves parameters and buffers to a GPU; tensors that were taken from the module before stay where they are.
bool bakeoff_module_move(Module *module, std::uint32_t gpu, char *error, std::size_t room) {
    const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(gpu));
    return bakeoff::succeeds([&] { module->to(device); }, error, room);
}

void bakeoff_module_drop(Module *module) { delete module; }

// As `module.train(training)` of PyTorch.
bool bakeoff_module_train(Module *module, bool training, char *error, std::size_t room) {
    return bakeoff::succeeds([&] { module->train(training); }, error, room);
}

// The same for those modules inside that keep running moments.
bool bakeoff_module_train_moments(Module *module, bool training, char *error, std::size_t room) {
    const auto work = [&] {
        for (Module inner : module->modules()) {
            // Not those inside of it: they may be dropout.
            if (inner.hasattr(MOMENTS) && inner.hasattr(TRAINING)) {
                inner.setattr(TRAINING, training);
            }
        }
    };
    return bakeoff::succeeds(work, error, room);
}

// Whether it has a method of this name.
bool bakeoff_module_has_method(const Module *module, const char *method) {
    bool found = false;
    return bakeoff::succeeds([&] { found = module->find_method(method).has_value(); }, nullptr, 0) && found;
}

// Whether it is an `nn.Sequential`.
bool bakeoff_module_is_sequential(const Module *module) {
    bool found = false;
    const auto work = [&] {
        const auto name = module->type()->name();
        found = name.has_value() && plain_name(*name) == SEQUENTIAL;
    };
    return bakeoff::succeeds(work, nullptr, 0) && found;
}

// Whether calling it in Python would run hooks around its `forward`, which a call of the method does not.
bool bakeoff_module_has_hooks(const Module *module) {
    bool found = false;
    const auto work = [&] {
        const auto type = module->type();
        found = !type->getForwardHooks().empty() || !type->getForwardPreHooks().empty();
    };
    return bakeoff::succeeds(work, nullptr, 0) && found;
}

// Writes a new tensor, which the caller owns, to `result`: what the method makes of `input`. With a `child`, the method is that of the
// module of this name directly inside.
bool bakeoff_module_call(const Module *module, const char *child, const char *method, const at::Tensor *input, at::Tensor **result,
                         char *error, std::size_t room) {
    const auto work = [&] {
        Module callee = child == nullptr ? *module : module->attr(child).toModule();
        const c10::IValue made = callee.get_method(method)(std::vector<c10::IValue>{*input});
        TORCH_CHECK(made.isTensor(), "RuntimeError: `", method, "` makes ", made.tagKind(), ", where one tensor is wanted");
        TORCH_CHECK(made.toTensor().defined(), "RuntimeError: `", method, "` makes no tensor");
        *result = std::make_unique<at::Tensor>(made.toTensor()).release();
    };
    return bakeoff::succeeds(work, error, room);
}

// Shows all parameters, those of the modules inside included, in PyTorch's order.
bool bakeoff_module_parameters(const Module *module, See see, void *context, char *error, std::size_t room) {
    const auto work = [&] {
        for (const auto &parameter : module->named_parameters()) {
            see(context, parameter.name.c_str(), std::make_unique<at::Tensor>(parameter.value).release());
        }
    };
    return bakeoff::succeeds(work, error, room);
}

// The same of all buffers.
bool bakeoff_module_buffers(const Module *module, See see, void *context, char *error, std::size_t room) {
    const auto work = [&] {
        for (const auto &buffer : module->named_buffers()) {
            see(context, buffer.name.c_str(), std::make_unique<at::Tensor>(buffer.value).release());
        }
    };
    return bakeoff::succeeds(work, error, room);
}

// The same of the modules directly inside, which are no tensors.
bool bakeoff_module_children(const Module *module, See see, void *context, char *error, std::size_t room) {
    const auto work = [&] {
        for (const auto &child : module->named_children()) {
            see(context, child.name.c_str(), nullptr);
        }
    };
    return bakeoff::succeeds(work, error, room);
}
}
