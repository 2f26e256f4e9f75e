#pragma once
// Value: a Python value in a template.
//
// Strings, lists and dicts are immutable (as in the sandbox), so copies of a Value share them. Mutable
// values, such as namespaces and loops, are Objects. Values are created by a rendering's Workspace, which
// charges memory and work against the limits and throws a Failure that names the limit exceeded. Constants of
// a template are created once without a Workspace and shared by renderings.
//
// Threading: constants may be read by any thread. All other values belong to one rendering and its thread,
// and must not outlive its Workspace.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/jinja/error.h"

namespace reprise::protocol::jinja {

class Dict;
class Object;
class Value;
class Workspace;
struct Arguments;
struct List;
struct Text;

/// Why a value is undefined, for error messages.
struct UndefinedNote {
  std::string message;
};

enum class ValueKind : std::uint8_t {
  kNone,
  kUndefined,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kDict,
  kObject
};

class Value {
 public:
  Value() = default;  // None
  explicit Value(bool value) : kind_(ValueKind::kBool) { number_.boolean = value; }
  explicit Value(std::int64_t value) : kind_(ValueKind::kInt) { number_.integer = value; }
  explicit Value(double value) : kind_(ValueKind::kFloat) { number_.real = value; }
  explicit Value(std::shared_ptr<const Text> text) : kind_(ValueKind::kString), shared_(std::move(text)) {}
  explicit Value(std::shared_ptr<const List> list) : kind_(ValueKind::kList), shared_(std::move(list)) {}
  explicit Value(std::shared_ptr<const Dict> dict) : kind_(ValueKind::kDict), shared_(std::move(dict)) {}
  explicit Value(std::shared_ptr<Object> object) : kind_(ValueKind::kObject), shared_(std::move(object)) {}
  static Value undefined(std::string message);

  /// Creates a string that is shared between renderings.
  static Value constant(std::string text);

  ValueKind kind() const { return kind_; }
  bool is_none() const { return kind() == ValueKind::kNone; }
  bool is_undefined() const { return kind() == ValueKind::kUndefined; }
  bool is_bool() const { return kind() == ValueKind::kBool; }
  bool is_int() const { return kind() == ValueKind::kInt; }
  bool is_float() const { return kind() == ValueKind::kFloat; }
  bool is_integral() const { return is_int() || is_bool(); }  // bool is an int in Python
  bool is_number() const { return is_integral() || is_float(); }
  bool is_string() const { return kind() == ValueKind::kString; }
  bool is_list() const { return kind() == ValueKind::kList; }  // any flavor
  bool is_dict() const { return kind() == ValueKind::kDict; }
  bool is_object() const { return kind() == ValueKind::kObject; }

  // Require the matching kind.
  bool as_bool() const { return number_.boolean; }
  std::int64_t as_int() const { return is_bool() ? as_bool() : number_.integer; }
  double as_double() const { return is_float() ? number_.real : static_cast<double>(as_int()); }
  const Text& text() const { return *static_cast<const Text*>(shared_.get()); }
  inline const std::string& as_string() const;
  inline bool is_safe() const;  // already escaped for HTML
  const List& list() const { return *static_cast<const List*>(shared_.get()); }
  inline const std::vector<Value>& items() const;
  const Dict& dict() const { return *static_cast<const Dict*>(shared_.get()); }
  Object& object() const { return *static_cast<Object*>(const_cast<void*>(shared_.get())); }
  std::shared_ptr<Object> shared_object() const { return {shared_, &object()}; }
  const std::string& undefined_message() const {
    return static_cast<const UndefinedNote*>(shared_.get())->message;
  }

  /// Returns the address of the shared data; null for values without.
  const void* identity() const;

  /// Returns the nesting of lists; 3 for lists in lists in lists.
  int depth() const;

 private:
  ValueKind kind_ = ValueKind::kNone;
  union {
    bool boolean;
    std::int64_t integer = 0;
    double real;
  } number_;
  std::shared_ptr<const void> shared_;  // Text, List, Dict, Object or UndefinedNote, according to kind_
};

/// Charges memory to a workspace for its lifetime.
class Charge {
 public:
  Charge() = default;
  Charge(Workspace& workspace, std::size_t bytes);
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;
  ~Charge();

 private:
  Workspace* workspace_ = nullptr;
  std::size_t bytes_ = 0;
};

struct Text {
  explicit Text(std::string t, bool safe = false);
  Text(Workspace& workspace, std::string t, bool safe);

  bool is_ascii() const { return code_points == text.size(); }

  const std::string text;
  const std::size_t code_points;
  const bool safe;

 private:
  Charge charge_;
};

/// All immutable sequences.
struct List {
  enum class Flavor : std::uint8_t { kList, kTuple, kGroup, kKeys, kValues, kItems, kRange };

  List(std::vector<Value> i, Flavor f);
  List(Workspace& workspace, std::vector<Value> i, Flavor f);

  bool is_tuple() const { return flavor == Flavor::kTuple || flavor == Flavor::kGroup; }
  bool is_view() const {
    return flavor == Flavor::kKeys || flavor == Flavor::kValues || flavor == Flavor::kItems;
  }

  const std::vector<Value> items;
  const Flavor flavor;
  const int depth;

 private:
  Charge charge_;
};

/// A dict in insertion order. Modified only while it is built.
class Dict {
 public:
  struct Entry {
    Value key;
    Value value;
  };

  Dict() = default;

  /// Requires: the key is hashable.
  void set(Value key, Value value);
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  const std::vector<Entry>& entries() const { return entries_; }
  std::size_t size() const { return entries_.size(); }
  int depth() const { return depth_; }

  /// Charges its memory; called once, when it is complete.
  void charge(Workspace& workspace);

 private:
  struct Before {
    bool operator()(const Value& a, const Value& b) const;
  };

  std::vector<Entry> entries_;
  std::map<Value, std::size_t, Before> index_;  // empty for small dicts, which are scanned
  std::optional<Charge> charge_;
  int depth_ = 1;
};

class Object {
 public:
  virtual ~Object() = default;

  virtual std::string type_name() const = 0;  // "Namespace"
  virtual std::string repr(Workspace& workspace) const;
  virtual std::optional<Value> attribute(Workspace&, std::string_view) { return std::nullopt; }
  virtual bool is_callable() const { return false; }
  virtual Value call(Workspace& workspace, const Arguments& arguments);
  virtual bool is_iterator() const { return false; }
  virtual std::optional<Value> next(Workspace&) { return std::nullopt; }
  virtual std::optional<std::size_t> length() const { return std::nullopt; }
  virtual int depth() const { return 0; }

  /// Drops references to other values at the end of a rendering, because objects may form cycles.
  virtual void clear() {}
};

inline const std::string& Value::as_string() const {
  return text().text;
}

inline bool Value::is_safe() const {
  return is_string() && text().safe;
}

inline const std::vector<Value>& Value::items() const {
  return list().items;
}

/// Creates the values of one rendering and charges their cost.
class Workspace {
 public:
  explicit Workspace(const RenderLimits& limits, std::int64_t now = 0) : limits_(limits), now_(now) {}
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace();

  const RenderLimits& limits() const { return limits_; }
  std::int64_t now() const { return now_; }  // seconds since 1970

  // Charge work; long values in proportion to their length.
  void step() {
    if (++steps_ > limits_.steps) fail_steps();
  }
  void work(std::size_t bytes) {
    steps_ += bytes / kBytesPerStep;
    step();
  }

  /// Called before allocating something of this size; fails if it exceeds the limit.
  void check_text(std::size_t bytes) const;
  void check_items(std::size_t count) const;

  void take_memory(std::size_t bytes);
  void give_memory(std::size_t bytes) { memory_ -= bytes; }

  Value text(std::string text, bool safe = false);
  Value list(std::vector<Value> items, List::Flavor flavor = List::Flavor::kList);
  Value tuple(std::vector<Value> items) { return list(std::move(items), List::Flavor::kTuple); }
  Value dict(std::shared_ptr<Dict> built);

  /// Returns a one-pass iterator, like a Python generator.
  Value iterator(std::vector<Value> items);

  /// Keeps the object alive until the rendering ends, and then clears it.
  Value keep(std::shared_ptr<Object> object);

  /// Counts a level of nested evaluation for its lifetime.
  class Level {
   public:
    explicit Level(Workspace& workspace) : workspace_(workspace) {
      if (++workspace_.depth_ > workspace_.limits_.depth) workspace_.fail_depth();
    }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    ~Level() { --workspace_.depth_; }

   private:
    Workspace& workspace_;
  };

 private:
  static constexpr std::size_t kBytesPerStep = 16;  // case conversion takes about 15 ns per byte

  [[noreturn]] void fail_steps() const;
  [[noreturn]] void fail_depth();

  const RenderLimits limits_;
  const std::int64_t now_;
  std::uint64_t steps_ = 0;
  std::size_t depth_ = 0;
  std::size_t memory_ = 0;
  std::vector<std::shared_ptr<Object>> kept_;
};

}  // namespace reprise::protocol::jinja
