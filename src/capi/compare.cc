// Two paths -> the rows and the summary of their comparison.
#include "capi/c_api_internal.h"
