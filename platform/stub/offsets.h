// Constants of slot.h that assembly needs; stub.c asserts that they agree.
#pragma once
#define UKS_ASM_MAGIC 0x62757473736b75
#define UKS_ASM_AREA_SIZE 0x10000
