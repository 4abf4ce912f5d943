// Exceptions of C++ as texts for the caller.

#pragma once

#include <cstddef>
#include <cstdio>
#include <exception>

namespace bakeoff {

// Does the work and returns whether it ended; otherwise writes a text that ends with a zero, at most `room` bytes long, to `error`,
// which may be null where there is no room.
template <typename Work> bool succeeds(Work work, char *error, std::size_t room) {
    try {
        work();
        return true;
    } catch (const std::exception &failure) {
        std::snprintf(error, room, "%s", failure.what());
    } catch (...) {
        std::snprintf(error, room, "an exception of an unknown type");
    }
    return false;
}

} // namespace bakeoff
