#include <array>
#include <cstdio>
#include <ctime>

#include "protocol/jinja/access.h"
#include "protocol/jinja/builtins.h"
#include "protocol/jinja/error.h"
#include "protocol/jinja/objects.h"
#include "protocol/jinja/operators.h"
#include "protocol/jinja/text.h"

namespace reprise::protocol::jinja {

Parameters::Parameters(std::string_view function, const Arguments& arguments,
                       std::initializer_list<const char*> names)
    : function_(function), names_(names), values_(names.size(), nullptr) {
  if (arguments.positional.size() > names_.size()) {
    fail({function_, "() takes at most ", std::to_string(names_.size()), " arguments, ",
          std::to_string(arguments.positional.size()), " were given"});
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    std::size_t i = 0;
    while (i < names_.size() && name != names_[i]) ++i;
    if (i == names_.size()) fail({function_, "() got an unexpected keyword argument '", name, "'"});
    if (values_[i] != nullptr) fail({function_, "() got multiple values for argument '", name, "'"});
    values_[i] = &value;
  }
}

const Value& Parameters::need(std::size_t i) const {
  if (values_[i] == nullptr) fail({function_, "() misses its argument '", names_[i], "'"});
  return *values_[i];
}

std::int64_t Parameters::integer(std::size_t i, std::int64_t fallback) const {
  if (values_[i] == nullptr) return fallback;
  const Value& value = *values_[i];
  if (value.is_undefined()) fail(value.undefined_message());
  if (!value.is_integral()) {
    fail({function_, "(): '", names_[i], "' must be an integer, not ", type_name(value)});
  }
  return value.as_int();
}

bool Parameters::truth(std::size_t i, bool fallback) const {
  return values_[i] == nullptr ? fallback : is_true(*values_[i]);
}

std::string_view Parameters::text(std::size_t i, std::string_view fallback) const {
  return values_[i] == nullptr || values_[i]->is_none() ? fallback : std::string_view(need_text(i));
}

const std::string& Parameters::need_text(std::size_t i) const {
  const Value& value = need(i);
  if (value.is_undefined()) fail(value.undefined_message());
  if (!value.is_string()) {
    fail({function_, "(): '", names_[i], "' must be a string, not ", type_name(value)});
  }
  return value.as_string();
}

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
  // Unsigned: the distance of two int64 may need 64 bits.
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
    if (i + 1 < count) value += step;  // never steps beyond the bounds
  }
  return workspace.list(std::move(items), List::Flavor::kRange);
}

// Collects the arguments of dict() and namespace(): a dict or pairs, and keywords.
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
  Cycler& cycler_;  // kept alive by the workspace
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

constexpr std::array<const char*, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                              "Thursday", "Friday", "Saturday"};
constexpr std::array<const char*, 12> kMonths = {"January",   "February", "March",    "April",
                                                 "May",       "June",     "July",     "August",
                                                 "September", "October",  "November", "December"};

std::string number(int value, int width, char flag) {
  char digits[16];
  const int min_width = flag == '-' ? 1 : width;
  if (flag == '_') {
    std::snprintf(digits, sizeof digits, "%*d", min_width, value);
  } else {
    std::snprintf(digits, sizeof digits, "%0*d", min_width, value);
  }
  return digits;
}

// Returns the ISO week number; week 1 has the year's first Thursday.
int iso_week(const std::tm& time, int& year) {
  const int weekday = (time.tm_wday + 6) % 7;  // Monday is 0
  int week = (time.tm_yday - weekday + 10) / 7;
  year = time.tm_year + 1900;
  const auto weeks_in = [&](int y) {
    const auto p = [](int v) { return (v + v / 4 - v / 100 + v / 400) % 7; };
    return p(y) == 4 || p(y - 1) == 3 ? 53 : 52;
  };
  if (week < 1) return weeks_in(--year);
  if (week > weeks_in(year)) return ++year, 1;
  return week;
}

std::string format_time(std::string_view format, std::int64_t seconds);

std::string directive(char c, char flag, const std::tm& t, std::int64_t seconds) {
  const int hour12 = t.tm_hour % 12 == 0 ? 12 : t.tm_hour % 12;
  int iso_year = 0;
  switch (c) {
    case 'a':
      return std::string(kDays[static_cast<std::size_t>(t.tm_wday)]).substr(0, 3);
    case 'A':
      return kDays[static_cast<std::size_t>(t.tm_wday)];
    case 'b':
    case 'h':
      return std::string(kMonths[static_cast<std::size_t>(t.tm_mon)]).substr(0, 3);
    case 'B':
      return kMonths[static_cast<std::size_t>(t.tm_mon)];
    case 'd':
      return number(t.tm_mday, 2, flag);
    case 'e':
      return number(t.tm_mday, 2, flag != 0 ? flag : '_');
    case 'm':
      return number(t.tm_mon + 1, 2, flag);
    case 'y':
      return number((t.tm_year + 1900) % 100, 2, flag);
    case 'Y':
      return number(t.tm_year + 1900, 1, flag);
    case 'C':
      return number((t.tm_year + 1900) / 100, 2, flag);
    case 'H':
      return number(t.tm_hour, 2, flag);
    case 'k':
      return number(t.tm_hour, 2, flag != 0 ? flag : '_');
    case 'I':
      return number(hour12, 2, flag);
    case 'l':
      return number(hour12, 2, flag != 0 ? flag : '_');
    case 'M':
      return number(t.tm_min, 2, flag);
    case 'S':
      return number(t.tm_sec, 2, flag);
    case 'f':
      return "000000";
    case 'j':
      return number(t.tm_yday + 1, 3, flag);
    case 'p':
      return t.tm_hour < 12 ? "AM" : "PM";
    case 'P':
      return t.tm_hour < 12 ? "am" : "pm";
    case 'u':
      return number(t.tm_wday == 0 ? 7 : t.tm_wday, 1, flag);
    case 'w':
      return number(t.tm_wday, 1, flag);
    case 'U':
      return number((t.tm_yday + 7 - t.tm_wday) / 7, 2, flag);
    case 'W':
      return number((t.tm_yday + 7 - (t.tm_wday + 6) % 7) / 7, 2, flag);
    case 'V':
      return number(iso_week(t, iso_year), 2, flag);
    case 'G':
      iso_week(t, iso_year);
      return number(iso_year, 1, flag);
    case 's':
      return std::to_string(seconds);
    case 'z':
    case 'Z':
      return "";
    case 'n':
      return "\n";
    case 't':
      return "\t";
    case '%':
      return "%";
    case 'D':
    case 'x':
      return format_time("%m/%d/%y", seconds);
    case 'F':
      return format_time("%Y-%m-%d", seconds);
    case 'R':
      return format_time("%H:%M", seconds);
    case 'T':
    case 'X':
      return format_time("%H:%M:%S", seconds);
    case 'r':
      return format_time("%I:%M:%S %p", seconds);
    case 'c':
      return format_time("%a %b %e %H:%M:%S %Y", seconds);
    default:
      fail(std::string("strftime_now does not know %") + c);
  }
}

// Python's datetime.strftime for a naive UTC time in English; %Z and %z are empty. Fails for unknown
// directives.
std::string format_time(std::string_view format, std::int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  if (gmtime_r(&time, &parts) == nullptr) fail("strftime_now: the time is out of range");
  std::string out;
  for (std::size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%' || at + 1 >= format.size()) {
      out += format[at];
      continue;
    }
    char flag = 0;
    if (format[at + 1] == '-' || format[at + 1] == '_' || format[at + 1] == '0') flag = format[++at];
    if (at + 1 >= format.size()) fail("strftime_now: the format ends within a directive");
    out += directive(format[++at], flag, parts, seconds);
  }
  return out;
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

}  // namespace reprise::protocol::jinja
