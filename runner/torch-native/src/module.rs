//! TorchScript modules: `torch::jit::Module`.

use crate::failure::attempt;
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::{self, NonNull};
use tch::{TchError, Tensor};
use torch_sys::C_tensor;

/// Opaque `torch::jit::Module` of C++; only pointers to it exist here.
#[repr(C)]
struct CppModule {
    _opaque: [u8; 0],
}

type See = extern "C" fn(context: *mut c_void, name: *const c_char, tensor: *mut C_tensor);
type Visit = unsafe extern "C" fn(*const CppModule, See, *mut c_void, *mut c_char, usize) -> bool;

#[expect(unsafe_code, reason = "functions of C++; their contracts are in module.cpp")]
unsafe extern "C" {
    fn bakeoff_module_read(
        bytes: *const c_char,
        length: usize,
        module: *mut *mut CppModule,
        error: *mut c_char,
        room: usize,
    ) -> bool;
    fn bakeoff_module_move(module: *mut CppModule, gpu: u32, error: *mut c_char, room: usize) -> bool;
    fn bakeoff_module_drop(module: *mut CppModule);
    fn bakeoff_module_train(module: *mut CppModule, training: bool, error: *mut c_char, room: usize) -> bool;
    fn bakeoff_module_train_moments(
        module: *mut CppModule,
        training: bool,
        error: *mut c_char,
        room: usize,
    ) -> bool;
    fn bakeoff_module_has_method(module: *const CppModule, method: *const c_char) -> bool;
    fn bakeoff_module_is_sequential(module: *const CppModule) -> bool;
    fn bakeoff_module_has_hooks(module: *const CppModule) -> bool;
    fn bakeoff_module_call(
        module: *const CppModule,
        child: *const c_char,
        method: *const c_char,
        input: *const C_tensor,
        result: *mut *mut C_tensor,
        error: *mut c_char,
        room: usize,
    ) -> bool;
    fn bakeoff_module_parameters(
        module: *const CppModule,
        see: See,
        context: *mut c_void,
        error: *mut c_char,
        room: usize,
    ) -> bool;
    fn bakeoff_module_buffers(
        module: *const CppModule,
        see: See,
        context: *mut c_void,
        error: *mut c_char,
        room: usize,
    ) -> bool;
    fn bakeoff_module_children(
        module: *const CppModule,
        see: See,
        context: *mut c_void,
        error: *mut c_char,
        room: usize,
    ) -> bool;
}

/// Whether layers such as dropout act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As in PyTorch's `train()`.
    Training,
    /// As in PyTorch's `eval()`.
    Evaluation,
}

/// A module of a TorchScript archive, on the CPU until it is moved.
#[derive(Debug)]
pub struct ScriptModule(NonNull<CppModule>);

#[expect(unsafe_code, reason = "the module is owned, and libtorch's modules are bound to no thread")]
// SAFETY: as for `tch::CModule`.
unsafe impl Send for ScriptModule {}

impl Drop for ScriptModule {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "a function of C++; its contract is in module.cpp")]
        // SAFETY: the pointer came from `bakeoff_module_read`, and nothing uses it after this.
        unsafe {
            bakeoff_module_drop(self.0.as_ptr());
        }
    }
}

impl ScriptModule {
    /// The module in an archive.
    ///
    /// # Errors
    /// The bytes are no archive of TorchScript.
    pub fn read(archive: &[u8]) -> Result<Self, TchError> {
        let mut module = ptr::null_mut();
        attempt(|text, room| {
            #[expect(unsafe_code, reason = "a function of C++; its contract is in module.cpp")]
            // SAFETY: `archive` has as many bytes as it says.
            unsafe {
                bakeoff_module_read(archive.as_ptr().cast(), archive.len(), &raw mut module, text, room)
            }
        })?;
        NonNull::new(module)
            .map(Self)
            .ok_or_else(|| TchError::Torch("the archive holds no module".to_owned()))
    }

    /// Moves its parameters and buffers to a GPU. To be called before they are taken from it.
    ///
    /// # Errors
    /// There is no such GPU, or no room on it.
    pub fn move_to_gpu(&mut self, gpu: u32) -> Result<(), TchError> {
        attempt(|text, room| {
            #[expect(unsafe_code, reason = "a function of C++; its contract is in module.cpp")]
            // SAFETY: the module is alive.
            unsafe {
                bakeoff_module_move(self.0.as_ptr(), gpu, text, room)
            }
        })
    }

    /// PyTorch's `train()` or `eval()`.
    ///
    /// # Errors
    /// A module inside has no such state.
    pub fn set_mode(&mut self, mode: Mode) -> Result<(), TchError> {
        attempt(|text, room| {
            #[expect(unsafe_code, reason = "a function of C++; its contract is in module.cpp")]
            // SAFETY: the module is alive.
            unsafe {
                bakeoff_module_train(self.0.as_ptr(), mode == Mode::Training, text, room)
            }
        })
    }

    /// The same for the modules inside that keep running moments, as batch norms do.
    ///
    /// # Errors
    /// A module inside has no such state, as of [`ScriptModule::set_mode`].
    pub fn set_mode_of_moments(&mut self, mode: Mode) -> Result<(), TchError> {
        attempt(|text, room| {
            #[expect(unsafe_code, reason = "a function of C++; its contract is in module.cpp")]
            // SAFETY: the module is alive.
            unsafe {
                bakeoff_module_train_moments(self.0.as_ptr(), mode == Mode::Training, text, room)
            }
        })
    }

    /// Whether it has a method of this name.
    pub fn has_method(&self, method: &str) -> bool {
        let Ok(method) = CString::new(method) else { return false };
        #[expect(unsafe_code, reason = "a function of C++; its contract is in module.cpp")]
        // SAFETY: the module is alive, and the name ends with a zero.
        unsafe {
            bakeoff_module_has_method(self.0.as_ptr(), method.as_ptr())
        }
    }

    /// Whether it is an `nn.Sequential`.
    pub fn is_sequential(&self) -> bool {
        #[expect(unsafe_code, reason = "a function of C++; its contract is in module.cpp")]
        // SAFETY: the module is alive.
        unsafe {
            bakeoff_module_is_sequential(self.0.as_ptr())
        }
    }

    /// Whether Python runs hooks around its `forward`, which [`ScriptModule::call`] does not.
    pub fn has_hooks(&self) -> bool {
        #[expect(unsafe_code, reason = "a function of C++; its contract is in module.cpp")]
        // SAFETY: the module is alive.
        unsafe {
            bakeoff_module_has_hooks(self.0.as_ptr())
        }
    }

    /// Calls a method with a tensor and returns its result; with a `child`, a method of the direct submodule so named.
    ///
    /// # Errors
    /// There is no such method or child, the script fails, or it makes something else than a tensor.
    pub fn call(&self, child: Option<&str>, method: &str, input: &Tensor) -> Result<Tensor, TchError> {
        let named = |name: &str| CString::new(name).map_err(|error| TchError::Torch(error.to_string()));
        let child = child.map(named).transpose()?;
        let method = named(method)?;
        let mut result = ptr::null_mut();
        attempt(|text, room| {
            #[expect(unsafe_code, reason = "a function of C++; its contract is in module.cpp")]
            // SAFETY: module, names and input are alive during the call.
            unsafe {
                bakeoff_module_call(
                    self.0.as_ptr(),
                    child.as_ref().map_or(ptr::null(), |child| child.as_ptr()),
                    method.as_ptr(),
                    input.as_ptr(),
                    &raw mut result,
                    text,
                    room,
                )
            }
        })?;
        #[expect(unsafe_code, reason = "a function of C++; its contract is in module.cpp")]
        // SAFETY: it has succeeded, so that the result is a new tensor, owned by nothing else.
        Ok(unsafe { Tensor::from_ptr(result) })
    }

    /// All parameters by name, those of the modules inside included, in PyTorch's order. The tensors are the module's own.
    ///
    /// # Errors
    /// libtorch fails to list them.
    pub fn parameters(&self) -> Result<Vec<(String, Tensor)>, TchError> {
        Ok(tensors(self.visit(bakeoff_module_parameters)?))
    }

    /// The same of all buffers, which no gradient reaches.
    ///
    /// # Errors
    /// libtorch fails to list them.
    pub fn buffers(&self) -> Result<Vec<(String, Tensor)>, TchError> {
        Ok(tensors(self.visit(bakeoff_module_buffers)?))
    }

    /// The names of the modules directly inside, in their order.
    ///
    /// # Errors
    /// libtorch fails to list them.
    pub fn children(&self) -> Result<Vec<String>, TchError> {
        Ok(self.visit(bakeoff_module_children)?.into_iter().map(|(name, _)| name).collect())
    }

    fn visit(&self, visit: Visit) -> Result<Vec<Seen>, TchError> {
        let mut seen: Vec<Seen> = Vec::new();
        attempt(|text, room| {
            #[expect(unsafe_code, reason = "a function of C++; its contract is in module.cpp")]
            // SAFETY: the module is alive; `take` gets the context back that is given here, while nothing else uses it.
            unsafe {
                visit(self.0.as_ptr(), take, (&raw mut seen).cast(), text, room)
            }
        })?;
        Ok(seen)
    }
}

/// A name, and the tensor if it is that of one.
type Seen = (String, Option<Tensor>);

fn tensors(seen: Vec<Seen>) -> Vec<(String, Tensor)> {
    seen.into_iter().filter_map(|(name, tensor)| Some((name, tensor?))).collect()
}

extern "C" fn take(context: *mut c_void, name: *const c_char, tensor: *mut C_tensor) {
    #[expect(unsafe_code, reason = "called by C++; the contract is in module.cpp")]
    // SAFETY: the context is the list that `visit` gave, the name ends with a zero, and a tensor that is not null is this function's.
    unsafe {
        let seen = &mut *context.cast::<Vec<Seen>>();
        let tensor = (!tensor.is_null()).then(|| Tensor::from_ptr(tensor));
        seen.push((CStr::from_ptr(name).to_string_lossy().into_owned(), tensor));
    }
}
