#include "protocol/jinja/is_tests.h"

#include "protocol/jinja/compare.h"
#include "protocol/jinja/error.h"
#include "protocol/jinja/filters/filters.h"
#include "protocol/jinja/iterate.h"
#include "protocol/jinja/methods.h"
#include "protocol/jinja/operators.h"
#include "protocol/jinja/text.h"
#include "protocol/jinja/workspace.h"

namespace reprise::protocol::jinja {
namespace {

void none(const Arguments& arguments) {
  (void)Parameters("test", arguments, {});
}

const Value& one(const Parameters& p) {
  return p.need(0);
}

bool remainder_is(Workspace& workspace, const Value& input, const Value& divisor, std::int64_t wanted) {
  return equals(workspace, apply(workspace, BinaryOperator::kModulo, input, divisor), Value(wanted));
}

bool all_cased(Workspace& workspace, const Value& input, const Arguments& arguments,
               std::string_view method) {
  return is_true(find_string_method(method)(workspace, as_text(workspace, input), arguments));
}

bool is_sequence(const Value& value) {
  return value.is_undefined() || value.is_string() || value.is_dict() ||
         (value.is_list() && !value.list().is_view());
}

template <bool (Value::*property)() const>
bool has(Workspace&, const Value& input, const Arguments& arguments) {
  none(arguments);
  return (input.*property)();
}

bool equal_to(Workspace& w, const Value& v, const Arguments& a) {
  return equals(w, v, one(Parameters("eq", a, {"other"})));
}

bool not_equal_to(Workspace& w, const Value& v, const Arguments& a) {
  return !equals(w, v, one(Parameters("ne", a, {"other"})));
}

template <char sign, bool or_equal>
bool ordered(Workspace& w, const Value& v, const Arguments& a) {
  const char text[] = {sign, or_equal ? '=' : '\0', '\0'};
  return compare_order(w, v, one(Parameters("comparison", a, {"other"})), text);
}

struct NamedTest {
  std::string_view name;
  IsTest test;
};

constexpr NamedTest kTests[] = {
    {"!=", not_equal_to},
    {"<", ordered<'<', false>},
    {"<=", ordered<'<', true>},
    {"==", equal_to},
    {">", ordered<'>', false>},
    {">=", ordered<'>', true>},
    {"boolean", has<&Value::is_bool>},
    {"callable",
     [](Workspace&, const Value& v, const Arguments& a) {
       none(a);
       return v.is_undefined() || (v.is_object() && v.object().is_callable());
     }},
    {"defined", [](Workspace&, const Value& v, const Arguments& a) { return none(a), !v.is_undefined(); }},
    {"divisibleby",
     [](Workspace& w, const Value& v, const Arguments& a) {
       return remainder_is(w, v, one(Parameters("divisibleby", a, {"num"})), 0);
     }},
    {"eq", equal_to},
    {"equalto", equal_to},
    {"escaped", has<&Value::is_safe>},
    {"even", [](Workspace& w, const Value& v,
                const Arguments& a) { return none(a), remainder_is(w, v, Value(std::int64_t{2}), 0); }},
    {"false",
     [](Workspace&, const Value& v, const Arguments& a) { return none(a), v.is_bool() && !v.as_bool(); }},
    {"filter",
     [](Workspace& w, const Value& v, const Arguments& a) {
       return none(a), check_hashable(w, v), v.is_string() && find_filter(v.as_string()) != nullptr;
     }},
    {"float", has<&Value::is_float>},
    {"ge", ordered<'>', true>},
    {"greaterthan", ordered<'>', false>},
    {"gt", ordered<'>', false>},
    {"in", [](Workspace& w, const Value& v,
              const Arguments& a) { return contains(w, one(Parameters("in", a, {"seq"})), v); }},
    {"integer", has<&Value::is_int>},
    {"iterable", [](Workspace&, const Value& v, const Arguments& a) { return none(a), is_iterable(v); }},
    {"le", ordered<'<', true>},
    {"lessthan", ordered<'<', false>},
    {"lower", [](Workspace& w, const Value& v, const Arguments& a) { return all_cased(w, v, a, "islower"); }},
    {"lt", ordered<'<', false>},
    {"mapping", has<&Value::is_dict>},
    {"ne", not_equal_to},
    {"none", has<&Value::is_none>},
    {"number", has<&Value::is_number>},
    {"odd", [](Workspace& w, const Value& v,
               const Arguments& a) { return none(a), remainder_is(w, v, Value(std::int64_t{2}), 1); }},
    {"sameas", [](Workspace&, const Value& v,
                  const Arguments& a) { return is_same(v, one(Parameters("sameas", a, {"other"}))); }},
    {"sequence", [](Workspace&, const Value& v, const Arguments& a) { return none(a), is_sequence(v); }},
    {"string", has<&Value::is_string>},
    {"test",
     [](Workspace& w, const Value& v, const Arguments& a) {
       return none(a), check_hashable(w, v), v.is_string() && find_is_test(v.as_string()) != nullptr;
     }},
    {"true",
     [](Workspace&, const Value& v, const Arguments& a) { return none(a), v.is_bool() && v.as_bool(); }},
    {"undefined", has<&Value::is_undefined>},
    {"upper", [](Workspace& w, const Value& v, const Arguments& a) { return all_cased(w, v, a, "isupper"); }},
};

}  // namespace

IsTest find_is_test(std::string_view name) {
  for (const NamedTest& known : kTests) {
    if (known.name == name) return known.test;
  }
  return nullptr;
}

}  // namespace reprise::protocol::jinja
