#include "traces/trace.h"

#if !defined(REPRISE_TRACE_OFF)

namespace reprise::traces {

void Zone::keep() {
  Recorder::add({.kind = Event::Kind::kZone,
                 .name = site_.name,
                 .at_ns = begin_ns_,
                 .end_ns = now_ns(),
                 .wait_ns = wait_ns_,
                 .flow = flow_,
                 .text = std::move(text_)});
}

void message(std::string_view text) {
  if (profiler::connected()) profiler::message(text);
  if (recording()) {
    Recorder::add({.kind = Event::Kind::kMessage, .at_ns = now_ns(), .text = std::string(text)});
  }
}

// Tracy has no flow arrows: there, turns show waits and plots show mailbox depths.
void sent(const ZoneSite& turn, const char* to, std::uint64_t flow) {
  if (!recording()) return;
  Recorder::add({.kind = Event::Kind::kSent, .name = turn.name, .at_ns = now_ns(), .flow = flow, .text = to});
}

void span(const ZoneSite& site, const char* line, std::int64_t begin_ns, std::int64_t end_ns) {
  if (!recording()) return;
  Recorder::add(
      {.kind = Event::Kind::kZone, .name = site.name, .track = line, .at_ns = begin_ns, .end_ns = end_ns});
}

void plot(const char* name, double value) {
  if (profiler::connected()) profiler::plot(name, value);
  if (recording()) {
    Recorder::add({.kind = Event::Kind::kPlot, .name = name, .at_ns = now_ns(), .number = value});
  }
}

void frame(const char* name) {
  if (profiler::connected()) profiler::frame(name);
  if (recording()) Recorder::add({.kind = Event::Kind::kFrame, .name = name, .at_ns = now_ns()});
}

void name_thread(const char* name) {
  profiler::name_thread(name);
  Recorder::name_thread(name);
}

}  // namespace reprise::traces

#endif
