package main

// select64 takes n messages from 64 channels, on which one goroutine puts in turn. All cases are written out, which is
// fast; reflect.Select, which takes a list, takes many times as long.
func select64(n int) {
	chs := makeChans(64)
	putters(chs, n, false)
	for i := 0; i < n; i++ {
		select {
		case <-chs[0]:
		case <-chs[1]:
		case <-chs[2]:
		case <-chs[3]:
		case <-chs[4]:
		case <-chs[5]:
		case <-chs[6]:
		case <-chs[7]:
		case <-chs[8]:
		case <-chs[9]:
		case <-chs[10]:
		case <-chs[11]:
		case <-chs[12]:
		case <-chs[13]:
		case <-chs[14]:
		case <-chs[15]:
		case <-chs[16]:
		case <-chs[17]:
		case <-chs[18]:
		case <-chs[19]:
		case <-chs[20]:
		case <-chs[21]:
		case <-chs[22]:
		case <-chs[23]:
		case <-chs[24]:
		case <-chs[25]:
		case <-chs[26]:
		case <-chs[27]:
		case <-chs[28]:
		case <-chs[29]:
		case <-chs[30]:
		case <-chs[31]:
		case <-chs[32]:
		case <-chs[33]:
		case <-chs[34]:
		case <-chs[35]:
		case <-chs[36]:
		case <-chs[37]:
		case <-chs[38]:
		case <-chs[39]:
		case <-chs[40]:
		case <-chs[41]:
		case <-chs[42]:
		case <-chs[43]:
		case <-chs[44]:
		case <-chs[45]:
		case <-chs[46]:
		case <-chs[47]:
		case <-chs[48]:
		case <-chs[49]:
		case <-chs[50]:
		case <-chs[51]:
		case <-chs[52]:
		case <-chs[53]:
		case <-chs[54]:
		case <-chs[55]:
		case <-chs[56]:
		case <-chs[57]:
		case <-chs[58]:
		case <-chs[59]:
		case <-chs[60]:
		case <-chs[61]:
		case <-chs[62]:
		case <-chs[63]:
		}
	}
}
