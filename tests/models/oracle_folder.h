#pragma once
// The folder of reference outputs, in the namespace of the models' tests.

#include "tests/oracle_folder.h"

namespace reprise::models::test {
using reprise::test::files_in;
using reprise::test::oracle;
using reprise::test::oracle_folder;
}  // namespace reprise::models::test
