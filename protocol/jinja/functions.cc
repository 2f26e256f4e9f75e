#include "protocol/jinja/functions.h"

#include "protocol/jinja/arguments.h"
#include "protocol/jinja/compare.h"
#include "protocol/jinja/error.h"
#include "protocol/jinja/iterate.h"
#include "protocol/jinja/namespace_object.h"
#include "protocol/jinja/strftime.h"
#include "protocol/jinja/text.h"
#include "protocol/jinja/workspace.h"

namespace reprise::protocol::jinja {
namespace {

constexpr std::uint64_t kMaxRange = 100'000;  // as in Jinja's sandbox

using Function = Value (*)(Workspace& workspace, const Arguments& arguments);

class Builtin final : public Object {
 public:
  Builtin(std::string name, Function function) : name_(std::move(name)), function_(function) {}

  std::string type_name() const override { return "function"; }
  std::string repr(Workspace&) const override { return "<function " + name_ + ">"; }
  bool is_callable() const override { return true; }
  Value call(Workspace& workspace, const Arguments& arguments) override {
    return function_(workspace, arguments);
  }

 private:
  const std::string name_;
  const Function function_;
};

Value range(Workspace& workspace, const Arguments& arguments) {
  std::int64_t bounds[3] = {0, 0, 1};
  const auto& given = arguments.positional;
  if (!arguments.named.empty()) fail("range() takes no keyword arguments");
  if (given.empty() || given.size() > 3) {
    fail({"range expected 1 to 3 arguments, got ", std::to_string(given.size())});
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i].is_undefined()) fail(given[i].undefined_message());
    if (!given[i].is_integral()) {
      fail({"'", type_name(given[i]), "' object cannot be interpreted as an integer"});
    }
    bounds[given.size() == 1 ? 1 : i] = given[i].as_int();
  }
  const auto [start, stop, step] = bounds;
  if (step == 0) fail("range() arg 3 must not be zero");
  // Unsigned, because the span of two 64-bit bounds may need all 64 bits.
  const auto distance = [](std::int64_t low, std::int64_t high) {
    return low < high ? static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) : 0;
  };
  const std::uint64_t span = step > 0 ? distance(start, stop) : distance(stop, start);
  const std::uint64_t stride =
      step > 0 ? static_cast<std::uint64_t>(step) : ~static_cast<std::uint64_t>(step) + 1;
  const std::uint64_t count = span == 0 ? 0 : (span - 1) / stride + 1;
  if (count > kMaxRange) {
    throw Failure(TemplateError::Kind::kLimit,
                  "Range too big. The sandbox blocks ranges larger than MAX_RANGE (" +
                      std::to_string(kMaxRange) + ").");
  }
  std::vector<Value> items;
  items.reserve(count);
  std::int64_t value = start;
  for (std::uint64_t i = 0; i < count; ++i) {
    items.emplace_back(value);
    if (i + 1 < count) value += step;  // never past the bounds
  }
  return workspace.list(std::move(items), List::Flavor::kRange);
}

// What dict() and namespace() are made from: a dict or pairs, and keywords.
std::shared_ptr<Dict> collect(Workspace& workspace, const Arguments& arguments, const char* name) {
  auto dict = std::make_shared<Dict>();
  if (arguments.positional.size() > 1) {
    fail({name, " expected at most 1 argument, got ", std::to_string(arguments.positional.size())});
  }
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is_dict()) {
      for (const Dict::Entry& entry : source.dict().entries()) dict->set(entry.key, entry.value);
    } else {
      for (const Value& each : to_vector(workspace, source)) {
        const std::vector<Value> pair = to_vector(workspace, each);
        if (pair.size() != 2) fail({name, "(): expected pairs"});
        check_hashable(workspace, pair[0]);
        dict->set(pair[0], pair[1]);
      }
    }
  }
  for (const auto& [key, value] : arguments.named) dict->set(workspace.text(key), value);
  return dict;
}

Value make_dict(Workspace& workspace, const Arguments& arguments) {
  return workspace.dict(collect(workspace, arguments, "dict"));
}

Value make_namespace(Workspace& workspace, const Arguments& arguments) {
  auto made = std::make_shared<Namespace>();
  const auto members = collect(workspace, arguments, "namespace");
  for (const Dict::Entry& entry : members->entries()) {
    if (entry.key.is_string()) made->set(entry.key.as_string(), entry.value);
  }
  return workspace.keep(std::move(made));
}

class Cycler final : public Object {
 public:
  explicit Cycler(std::vector<Value> items) : items_(std::move(items)) {}

  std::string type_name() const override { return "Cycler"; }
  std::optional<Value> attribute(Workspace& workspace, std::string_view name) override;
  Value advance() {
    const Value current = items_[at_];
    at_ = (at_ + 1) % items_.size();
    return current;
  }
  void reset() { at_ = 0; }
  void clear() override { items_.resize(1), items_[0] = Value(), at_ = 0; }

 private:
  std::vector<Value> items_;
  std::size_t at_ = 0;
};

class CyclerMethod final : public Object {
 public:
  CyclerMethod(Cycler& cycler, bool resets) : cycler_(cycler), resets_(resets) {}

  std::string type_name() const override { return "method"; }
  bool is_callable() const override { return true; }
  Value call(Workspace&, const Arguments&) override {
    if (!resets_) return cycler_.advance();
    cycler_.reset();
    return Value();
  }

 private:
  Cycler& cycler_;  // kept by the workspace
  bool resets_;
};

std::optional<Value> Cycler::attribute(Workspace&, std::string_view name) {
  if (name == "current") return items_[at_];
  if (name != "next" && name != "reset") return std::nullopt;
  return Value(std::shared_ptr<Object>(std::make_shared<CyclerMethod>(*this, name == "reset")));
}

Value make_cycler(Workspace& workspace, const Arguments& arguments) {
  if (arguments.positional.empty()) fail("at least one item has to be provided");
  return workspace.keep(std::make_shared<Cycler>(arguments.positional));
}

class Joiner final : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}

  std::string type_name() const override { return "Joiner"; }
  bool is_callable() const override { return true; }
  Value call(Workspace& workspace, const Arguments&) override {
    if (used_) return separator_;
    used_ = true;
    return workspace.text("");
  }
  void clear() override { separator_ = Value(); }

 private:
  Value separator_;
  bool used_ = false;
};

Value make_joiner(Workspace& workspace, const Arguments& arguments) {
  const Parameters p("joiner", arguments, {"sep"});
  return workspace.keep(std::make_shared<Joiner>(p.find(0) != nullptr ? *p.find(0) : workspace.text(", ")));
}

Value raise_exception(Workspace& workspace, const Arguments& arguments) {
  const Parameters p("raise_exception", arguments, {"message"});
  throw Failure(TemplateError::Kind::kRaised, to_str(workspace, p.need(0)));
}

Value strftime_now(Workspace& workspace, const Arguments& arguments) {
  const Parameters p("strftime_now", arguments, {"format"});
  return workspace.text(format_time(p.need_text(0), workspace.now()));
}

constexpr std::pair<std::string_view, Function> kFunctions[] = {
    {"cycler", make_cycler},
    {"dict", make_dict},
    {"joiner", make_joiner},
    {"namespace", make_namespace},
    {"raise_exception", raise_exception},
    {"range", range},
    {"strftime_now", strftime_now},
};

}  // namespace

std::optional<Value> find_global(std::string_view name) {
  for (const auto& [known, function] : kFunctions) {
    if (known == name) {
      return Value(std::shared_ptr<Object>(std::make_shared<Builtin>(std::string(name), function)));
    }
  }
  return std::nullopt;
}

std::string Namespace::repr(Workspace& workspace) const {
  std::string out = "<Namespace {";
  for (const auto& [name, value] : members_) {
    if (out.back() != '{') out += ", ";
    append_string_repr(out, name);
    out += ": ";
    append_repr(workspace, out, value);
  }
  return out + "}>";
}

std::optional<Value> Namespace::attribute(Workspace&, std::string_view name) {
  for (const auto& [known, value] : members_) {
    if (known == name) return value;
  }
  return std::nullopt;
}

void Namespace::set(std::string_view name, Value value) {
  for (auto& [known, held] : members_) {
    if (known == name) {
      held = std::move(value);
      return;
    }
  }
  members_.emplace_back(name, std::move(value));
}

}  // namespace reprise::protocol::jinja
