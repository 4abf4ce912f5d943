// How libtorch was built.

#include <string>

#include <ATen/Version.h>

extern "C" {

// Calls back with a text that says so: compilers, libraries, settings.
void bakeoff_build(void (*see)(void *context, const char *text), void *context) {
    std::string text = "unknown";
    try {
        text = at::show_config();
    } catch (...) {
    }
    see(context, text.c_str());
}
}
