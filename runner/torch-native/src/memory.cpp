// Bytes that libtorch takes on a thread.

#include <cstdint>
#include <memory>

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

namespace {

// What was taken less what was given back.
struct Counter final : c10::MemoryReportingInfoBase {
    std::int64_t live = 0;

    void reportMemoryUsage(void *, std::int64_t bytes, std::size_t, std::size_t, c10::Device) override { live += bytes; }

    bool memoryProfilingEnabled() const override { return true; }
};

struct Watch {
    std::shared_ptr<Counter> counter = std::make_shared<Counter>();
    c10::DebugInfoGuard guard{c10::DebugInfoKind::PROFILER_STATE, counter};
};

} // namespace

extern "C" {

// Counts what this thread takes until the watch ends on the same thread, the last one first; null where there is no memory for one.
Watch *bakeoff_watch_begin() {
    try {
        return std::make_unique<Watch>().release();
    } catch (...) {
        return nullptr;
    }
}

// Ends a watch and returns its count.
std::int64_t bakeoff_watch_end(Watch *watch) {
    const std::int64_t live = watch->counter->live;
    delete watch;
    return live;
}
}
