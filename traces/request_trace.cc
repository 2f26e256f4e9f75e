#include "traces/request_trace.h"

#include <algorithm>
#include <mutex>

#include "traces/trace.h"

namespace reprise::traces {

struct RequestTrace::Way {
  Way(std::string request, std::int64_t now) : id(std::move(request)), begin_ns(now) {}

  const std::string id;
  const std::int64_t begin_ns;
  std::mutex mutex;
  std::vector<Mark> marks;
  std::size_t unkept = 0;

  void keep(const Mark& mark) {
    const std::lock_guard lock(mutex);
    if (marks.size() < kMaxMarks) {
      marks.push_back(mark);
    } else {
      ++unkept;
    }
  }
};

namespace {

std::string text_of(const Mark& mark) {
  std::string out;
  for (std::size_t i = 0; i < mark.fact_count; ++i) {
    const Fact& fact = mark.facts[i];
    if (i > 0) out += ' ';
    out += fact.name;
    out += '=';
    out += fact.word.empty() ? std::to_string(fact.number) : std::string(fact.word);
  }
  return out;
}

Mark make_mark(const char* event, std::int64_t after_ns, std::initializer_list<Fact> facts) {
  Mark mark{.event = event, .after_ns = after_ns};
  mark.fact_count = std::min(facts.size(), Mark::kMaxFacts);
  std::copy_n(facts.begin(), mark.fact_count, mark.facts.begin());
  return mark;
}

void tell(Event::Kind kind, const std::string& id, std::int64_t now, const Mark& mark) {
  if (!on()) return;
  std::string text = text_of(mark);
  if (profiler::connected()) {
    profiler::message("request " + id + ' ' + mark.event + (text.empty() ? "" : ' ' + text));
  }
  if (recording()) {
    Recorder::add({.kind = kind, .name = mark.event, .at_ns = now, .id = id, .text = std::move(text)});
  }
}

}  // namespace

RequestTrace::RequestTrace(std::string id, const char* event, std::int64_t begin_ns)
    : way_(std::make_shared<Way>(std::move(id), begin_ns != 0 ? begin_ns : now_ns())) {
  const Mark mark = make_mark(event, 0, {});
  way_->keep(mark);
  tell(Event::Kind::kRequestBegin, way_->id, way_->begin_ns, mark);
}

std::string_view RequestTrace::id() const {
  return way_ == nullptr ? std::string_view() : way_->id;
}

void RequestTrace::mark(const char* event, std::initializer_list<Fact> facts) const {
  if (way_ == nullptr) return;
  const std::int64_t now = now_ns();
  const Mark mark = make_mark(event, now - way_->begin_ns, facts);
  way_->keep(mark);
  tell(Event::Kind::kRequestMark, way_->id, now, mark);
}

void RequestTrace::end(const char* event, std::initializer_list<Fact> facts) const {
  if (way_ == nullptr) return;
  const std::int64_t now = now_ns();
  const Mark mark = make_mark(event, now - way_->begin_ns, facts);
  way_->keep(mark);
  tell(Event::Kind::kRequestEnd, way_->id, now, mark);
}

std::vector<Mark> RequestTrace::marks() const {
  if (way_ == nullptr) return {};
  const std::lock_guard lock(way_->mutex);
  return way_->marks;
}

std::size_t RequestTrace::unkept() const {
  if (way_ == nullptr) return 0;
  const std::lock_guard lock(way_->mutex);
  return way_->unkept;
}

}  // namespace reprise::traces
